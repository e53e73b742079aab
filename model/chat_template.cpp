#include "model/chat_template.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "model/chat_template_render.hpp"
#include "model/unicode_text.hpp"

namespace yolk::model {

namespace {

/// What a rendering may do, see jinja::work. Real templates take under 10,000 a message, and some 20 a byte.
constexpr std::uint64_t base_work = 64u << 20;
constexpr std::uint64_t work_per_byte = 256;
constexpr std::uint64_t work_per_message = 100'000;

/// Templates write some tokens as '<|' + message.role + '|>': these roles may stand there, others forge
/// nothing.
constexpr std::array<std::string_view, 8> known_roles = {"system", "developer", "user",    "assistant",
                                                         "tool",   "function",  "ipython", "model"};

std::string family_of(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  if (has("<|start_header_id|>")) return has("Cutting Knowledge Date") ? "llama-3.1" : "llama-3";
  if (has("<<SYS>>")) return "llama-2";
  if (has("[INST]")) return "mistral";
  if (has("<|im_start|>")) {
    if (has("enable_thinking")) return "qwen3";
    if (has("You are Qwen") || has("system\\nYou are a helpful assistant")) return "qwen2";
    return "chatml";
  }
  return "jinja";
}

class rendered_template final : public chat_template {
 public:
  rendered_template(std::shared_ptr<const tokenizer> tokens, jinja::body statements)
      : tokens_(std::move(tokens)),
        statements_(std::move(statements)),
        name_(family_of(tokens_->chat_template_text())) {
    if (const auto id = tokens_->bos()) bos_ = tokens_->piece(*id, false);
    if (const auto id = tokens_->eos()) eos_ = tokens_->piece(*id, false);
  }

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] result<std::string> render(std::span<const chat_message> messages,
                                           const chat_options& options) const override {
    auto prompt = render_marked(messages, options);
    if (!prompt) return prompt.error();
    return std::move(prompt->bytes);
  }
  [[nodiscard]] result<std::vector<core::token_id>> encode(std::span<const chat_message> messages,
                                                           const chat_options& options) const override;

  [[nodiscard]] result<jinja::text> render_marked(std::span<const chat_message> messages,
                                                  const chat_options& options) const;

 private:
  [[nodiscard]] jinja::object variables(std::span<const chat_message> messages,
                                        const chat_options& options) const;

  std::shared_ptr<const tokenizer> tokens_;
  jinja::body statements_;
  std::string name_;
  std::string bos_;
  std::string eos_;
};

jinja::object rendered_template::variables(std::span<const chat_message> messages,
                                           const chat_options& options) const {
  jinja::list list;
  for (const chat_message& message : messages) {
    const bool known = std::find(known_roles.begin(), known_roles.end(), message.role) != known_roles.end();
    list.emplace_back(jinja::object{{"role", jinja::text(message.role, known)},
                                    {"content", jinja::text(message.content, false)}});
  }
  jinja::object out = {{"messages", std::move(list)},
                       {"bos_token", jinja::value::own(bos_)},
                       {"eos_token", jinja::value::own(eos_)},
                       {"add_generation_prompt", options.add_generation_prompt},
                       {"tools", jinja::none{}},
                       {"documents", jinja::none{}}};
  // Templates that know the word think unless told otherwise; those with a default of their own keep it.
  if (!options.enable_thinking) out.emplace_back("enable_thinking", false);
  return out;
}

result<jinja::text> rendered_template::render_marked(std::span<const chat_message> messages,
                                                     const chat_options& options) const {
  std::uint64_t bytes = 0;
  for (const chat_message& message : messages) bytes += message.role.size() + message.content.size();
  const jinja::work budget{base_work + work_per_byte * bytes + work_per_message * messages.size()};
  try {
    jinja::renderer renderer(variables(messages, options), options.today, budget);
    return renderer.run(statements_);
  } catch (const jinja::fault& problem) {
    return core::failure<errc>{problem.code, "chat template: " + problem.why};
  } catch (const std::bad_alloc&) {
    return core::failure<errc>{errc::out_of_memory, "chat template: no memory for the prompt"};
  }
}

result<std::vector<core::token_id>> rendered_template::encode(std::span<const chat_message> messages,
                                                              const chat_options& options) const {
  const auto prompt = render_marked(messages, options);
  if (!prompt) return prompt.error();
  std::vector<trusted_range> trusted;
  const std::string& marks = prompt->marks;
  for (std::size_t begin = marks.find('\1'); begin != std::string::npos;) {
    const std::size_t end = std::min(marks.find('\0', begin), marks.size());
    trusted.push_back({begin, end});
    begin = marks.find('\1', end);
  }
  return tokens_->encode(
      prompt->bytes,
      {.add_special_tokens = false, .parse_special_tokens = !trusted.empty(), .trusted = trusted});
}

}  // namespace

result<std::shared_ptr<const chat_template>> chat_template::recognise(
    std::shared_ptr<const tokenizer> tokens) {
  constexpr std::size_t shown_bytes = 80;
  const std::string& text = tokens->chat_template_text();
  if (text.empty()) return core::failure<errc>{errc::unsupported, "the model has no chat template"};
  const auto unsupported = [&](const std::string& why) {
    std::string shown;
    utf8_append_lossy(shown, std::string_view(text).substr(0, shown_bytes));
    return core::failure<errc>{errc::unsupported, "the chat template that begins \"" + shown + "\": " + why};
  };
  try {
    auto made = std::make_shared<rendered_template>(std::move(tokens), jinja::parse_template(text));
    // What rendering cannot do is said when the model is loaded, not at the first request. A template that
    // refuses this conversation in its own words, or wants what it lacks, is as it should be.
    const std::array<chat_message, 1> hello = {chat_message{"user", "Hello"}};
    const auto tried = made->render_marked(hello, {});
    if (!tried && tried.error().code != errc::malformed) return unsupported(tried.error().message);
    return std::shared_ptr<const chat_template>(std::move(made));
  } catch (const jinja::fault& problem) {
    return unsupported(problem.why);
  } catch (const std::bad_alloc&) {
    return core::failure<errc>{errc::out_of_memory, "chat template: no memory for it"};
  }
}

}  // namespace yolk::model
