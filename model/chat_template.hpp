#pragma once

#include <chrono>
#include <memory>
#include <optional>
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
  /// What strftime_now tells a template. Absent: templates that have a date of their own use that and others
  /// get 26 Jul 2024 (Llama 3.1's), so that a prompt's tokens, and with them its cached KV, do not change at
  /// midnight.
  std::optional<std::chrono::year_month_day> today = {};
};

/// Turns messages into a prompt, in the form that the model was trained on, by rendering its Jinja template:
/// Llama 2, Llama 3.x, Mistral, Qwen2/2.5, Qwen3, ChatML and what else uses the same parts of Jinja.
/// Immutable; thread-safe.
class chat_template {
 public:
  /// errc::unsupported names the template (its first characters) and the part of Jinja that is missing.
  static result<std::shared_ptr<const chat_template>> recognise(std::shared_ptr<const tokenizer> tokens);
  virtual ~chat_template() = default;
  /// llama-2, llama-3, llama-3.1, mistral, qwen2, qwen3, chatml; "jinja" for any other.
  [[nodiscard]] virtual std::string name() const = 0;
  /// The prompt as text, special tokens written out. errc::malformed where the template refuses the messages
  /// (roles out of order); the message is the template's own.
  [[nodiscard]] virtual result<std::string> render(std::span<const chat_message> messages,
                                                   const chat_options& options) const = 0;
  /// The prompt as tokens: those of render()'s text, but special tokens come from the template only. A
  /// message that contains "<|im_end|>" cannot forge one.
  [[nodiscard]] virtual result<std::vector<core::token_id>> encode(std::span<const chat_message> messages,
                                                                   const chat_options& options) const = 0;
};

}  // namespace yolk::model
