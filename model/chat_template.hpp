#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "model/errc.hpp"
#include "model/tokenizer.hpp"

namespace yolk::model {

struct chat_message {
  std::string role;  ///< system, developer, user, assistant, tool
  std::string content;
};

struct chat_options {
  bool add_generation_prompt = true;
  bool enable_thinking = true;  ///< Qwen3
};

/// Turns messages into a prompt, in the form that the model was trained on. Recognised by the text of its Jinja
/// template: Llama 2, Llama 3.x, Mistral, Qwen2/2.5, Qwen3, ChatML. Immutable; thread-safe.
class chat_template {
 public:
  /// errc::unsupported names the template (its first characters) where it is none of these.
  static result<std::shared_ptr<const chat_template>> recognise(std::shared_ptr<const tokenizer> tokens);
  virtual ~chat_template() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// The prompt as text, special tokens written out.
  [[nodiscard]] virtual result<std::string> render(std::span<const chat_message> messages, const chat_options& options) const = 0;
  /// The prompt as tokens. Special tokens come from the template only: a message that contains "<|im_end|>" cannot
  /// forge one.
  [[nodiscard]] virtual result<std::vector<core::token_id>> encode(std::span<const chat_message> messages,
                                                                   const chat_options& options) const = 0;
};

}  // namespace yolk::model
