#include "actors/http_gateway/generation_plan.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "http/generation_response.hpp"

namespace yolk::actors {

namespace {

constexpr std::uint32_t default_completion_tokens = 16;  // OpenAI's

using tokens_or_error = std::variant<std::vector<core::token_id>, http::api_error>;

http::api_error bad_request(std::string message, std::string param, std::string code = {}) {
  return {.status = 400, .message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

/// Ends with a full stop, and only one: errors of model/ have none, templates may write their own.
std::string as_sentence(std::string text) {
  if (!text.ends_with('.') && !text.ends_with('!') && !text.ends_with('?')) text += '.';
  return text;
}

/// What a client sent, for a message: no more of it than tells which it is.
std::string shortened(std::string_view name) {
  constexpr std::size_t longest_bytes = 64;
  if (name.size() <= longest_bytes) return std::string(name);
  std::size_t end = longest_bytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // whole UTF-8 characters
  return std::string(name.substr(0, end)) + "...";
}

std::uint32_t vocabulary_of(const model::loaded_model& model) {
  if (model.config.vocabulary_size > 0) return model.config.vocabulary_size;
  return static_cast<std::uint32_t>(model.tokens->vocabulary_size());
}

std::optional<http::api_error> check_ids(std::span<const core::token_id> ids, std::uint32_t vocabulary,
                                         const char* field) {
  const auto beyond =
      std::find_if(ids.begin(), ids.end(), [&](core::token_id id) { return id >= vocabulary; });
  if (beyond == ids.end()) return std::nullopt;
  return bad_request("'" + std::string(field) + "': token id " + std::to_string(*beyond) +
                         " is not in the vocabulary of " + std::to_string(vocabulary) + " tokens.",
                     field);
}

std::vector<model::chat_message> to_model(const std::vector<http::chat_turn>& turns) {
  std::vector<model::chat_message> messages;
  messages.reserve(turns.size());
  for (const http::chat_turn& turn : turns) messages.push_back({turn.role, turn.content});
  return messages;
}

tokens_or_error encode_chat(const model::loaded_model& model, const std::vector<http::chat_turn>& turns,
                            const model::chat_options& options) {
  if (!model.chat)
    return bad_request("The model '" + model.name + "' has no usable chat template: " +
                           as_sentence(model.chat_error) + " Use /v1/completions.",
                       "messages");
  auto encoded = model.chat->encode(to_model(turns), options);
  if (!encoded) return bad_request("'messages': " + as_sentence(encoded.error().message), "messages");
  return std::move(encoded).value();
}

tokens_or_error encode_prompt(const model::loaded_model& model, const http::prompt_input& input,
                              bool add_special_tokens) {
  if (const auto* text = std::get_if<std::string>(&input))
    return model.tokens->encode(*text, {.add_special_tokens = add_special_tokens});
  const auto& ids = std::get<std::vector<core::token_id>>(input);
  if (auto error = check_ids(ids, vocabulary_of(model), "prompt")) return *error;
  return ids;
}

/// Fills in max_tokens, or says why prompt and completion do not fit into the context.
std::optional<http::api_error> fit(generation_plan::prompt& prompt, const http::generation_request& request,
                                   std::uint32_t context_tokens) {
  const bool chat = request.kind == http::endpoint::chat;
  const char* field = chat ? "messages" : "prompt";
  const std::size_t length = prompt.tokens.size();
  if (length == 0)
    return bad_request(std::string("'") + field + "' is empty: there is nothing to continue.", field);
  const std::string limit =
      "This model's maximum context length is " + std::to_string(context_tokens) + " tokens";
  if (length >= context_tokens)
    return bad_request(limit + ", of which at least one must be left for the completion; your prompt has " +
                           std::to_string(length) + " tokens. Please shorten it.",
                       field, "context_length_exceeded");
  const auto rest = context_tokens - static_cast<std::uint32_t>(length);
  const std::uint32_t asked = request.sampling.max_tokens;
  if (asked > rest)
    return bad_request(limit + ". However, you requested " + std::to_string(length + asked) + " tokens (" +
                           std::to_string(length) + " in the prompt, " + std::to_string(asked) +
                           " in the completion). Please reduce one of them.",
                       "max_tokens", "context_length_exceeded");
  prompt.max_tokens = asked != 0 ? asked : chat ? rest : std::min(rest, default_completion_tokens);
  if (request.sampling.min_tokens > prompt.max_tokens)
    return bad_request("'min_tokens' is " + std::to_string(request.sampling.min_tokens) + ", more than the " +
                           std::to_string(prompt.max_tokens) + " tokens that may be generated.",
                       "min_tokens");
  return std::nullopt;
}

std::optional<http::api_error> check_request(const session_context& context,
                                             const http::generation_request& request) {
  const model::loaded_model& model = *context.environment.model;
  if (!request.model.empty() && request.model != model.name)
    return http::api_error{.status = 404,
                           .message = "The model '" + shortened(request.model) +
                                      "' does not exist; this server has '" + model.name + "'.",
                           .param = "model",
                           .code = "model_not_found"};
  // Each prompt takes a place of its own in admission's queue: a batch that is larger than that never fits.
  const std::uint32_t places = context.options.max_prompts_at_once;
  if (places > 0 && request.prompts.size() > places)
    return bad_request("'prompt' has " + std::to_string(request.prompts.size()) +
                           " prompts; this server takes at most " + std::to_string(places) +
                           " at once (in work and waiting together). Please send fewer in one request.",
                       "prompt");
  const std::uint32_t vocabulary = vocabulary_of(model);
  std::vector<core::token_id> biased;
  for (const auto& [token, bias] : request.sampling.logit_bias) biased.push_back(token);
  if (auto error = check_ids(biased, vocabulary, "logit_bias")) return error;
  return check_ids(request.sampling.stop_token_ids, vocabulary, "stop_token_ids");
}

std::string model_root_of(const session_context& context) {
  return context.environment.model->fingerprint + "/" + context.options.numerics;
}

/// Adds one prompt's tokens to the plan.
std::optional<http::api_error> add_prompt(const session_context& context, tokens_or_error tokens,
                                          generation_plan& plan) {
  if (auto* error = std::get_if<http::api_error>(&tokens)) return std::move(*error);
  generation_plan::prompt prompt{.tokens = std::get<std::vector<core::token_id>>(std::move(tokens))};
  // Tokens of an empty text: models with a begin-of-text token start from that.
  const model::tokenizer& tokenizer = *context.environment.model->tokens;
  if (prompt.tokens.empty() && plan.request.add_special_tokens && tokenizer.bos())
    prompt.tokens.push_back(*tokenizer.bos());
  if (auto error = fit(prompt, plan.request, context.context_tokens)) return error;
  plan.prompts.push_back(std::move(prompt));
  return std::nullopt;
}

}  // namespace

std::uint64_t generation_plan::prompt_tokens() const {
  std::uint64_t count = 0;
  for (const prompt& each : prompts) count += each.tokens.size();
  return count;
}

plan_result plan_generation(const session_context& context, const plan_origin& origin,
                            std::string_view body) {
  auto parsed = http::parse_generation_request(origin.kind, body, {});
  if (auto* error = std::get_if<http::api_error>(&parsed)) return std::move(*error);
  generation_plan plan;
  plan.request = std::get<http::generation_request>(std::move(parsed));
  if (auto error = check_request(context, plan.request)) return *error;
  if (!plan.request.seed_given) plan.request.sampling.seed = origin.drawn_seed;

  const model::loaded_model& model = *context.environment.model;
  if (origin.kind == http::endpoint::chat) {
    auto tokens = encode_chat(model, plan.request.messages,
                              {.add_generation_prompt = plan.request.add_generation_prompt,
                               .enable_thinking = plan.request.enable_thinking});
    if (auto error = add_prompt(context, std::move(tokens), plan)) return *error;
  }
  for (const http::prompt_input& input : plan.request.prompts) {
    if (auto error = add_prompt(context, encode_prompt(model, input, plan.request.add_special_tokens), plan))
      return *error;
    if (!plan.request.echo) continue;
    const auto* text = std::get_if<std::string>(&input);
    auto& prompt = plan.prompts.back();
    prompt.echo =
        text != nullptr ? *text : model.tokens->decode(prompt.tokens, plan.request.skip_special_tokens);
  }
  plan.root = kvcache::make_root({.tenant = origin.tenant,
                                  .salt = plan.request.cache_salt,
                                  .model = model_root_of(context),
                                  .kv_dtype = "bf16",
                                  .adapter = {},
                                  .block_tokens = context.options.block_tokens});
  // The texts are tokens now; a session may live for minutes and need not hold them.
  plan.request.messages.clear();
  plan.request.prompts.clear();
  return plan;
}

std::variant<std::string, http::api_error> tokenize(const session_context& context, std::string_view body) {
  auto parsed = http::parse_tokenize_request(body);
  if (auto* error = std::get_if<http::api_error>(&parsed)) return std::move(*error);
  const auto& request = std::get<http::tokenize_request>(parsed);
  const model::loaded_model& model = *context.environment.model;
  tokens_or_error tokens =
      request.is_chat
          ? encode_chat(model, request.messages, {.add_generation_prompt = request.add_generation_prompt})
          : tokens_or_error(
                model.tokens->encode(request.prompt, {.add_special_tokens = request.add_special_tokens}));
  if (auto* error = std::get_if<http::api_error>(&tokens)) return std::move(*error);
  return http::format_tokenize(std::get<0>(tokens), context.context_tokens);
}

std::variant<std::string, http::api_error> detokenize(const session_context& context, std::string_view body) {
  auto parsed = http::parse_detokenize_request(body);
  if (auto* error = std::get_if<http::api_error>(&parsed)) return std::move(*error);
  const auto& ids = std::get<0>(parsed);
  const model::loaded_model& model = *context.environment.model;
  if (auto error = check_ids(ids, vocabulary_of(model), "tokens")) return *error;
  return http::format_detokenize(model.tokens->decode(ids, false));
}

}  // namespace yolk::actors
