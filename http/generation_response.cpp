#include "http/generation_response.hpp"

#include <algorithm>
#include <cmath>

#include "http/json_writer.hpp"

namespace yolk::http {
namespace {

// JSON has no -inf; vLLM's clients know this number as "impossible".
constexpr float logprob_floor = -9999.0f;

float finite_logprob(float value) {
  return std::isfinite(value) ? std::max(value, logprob_floor) : logprob_floor;
}

void write_text_or_null(json_writer& json, const std::string& text) {
  if (text.empty()) {
    json.null();
  } else {
    json.string(text);
  }
}

void write_bytes(json_writer& json, std::string_view bytes) {
  json.key("bytes").begin_array();
  for (const char c : bytes) json.count(static_cast<unsigned char>(c));
  json.end_array();
}

void write_chat_logprobs(json_writer& json, const std::vector<token_logprob>& tokens) {
  const auto write_token = [&](const std::string& token, float logprob) {
    json.key("token").string(token);
    json.key("logprob").number(finite_logprob(logprob));
    write_bytes(json, token);
  };
  json.begin_object().key("content").begin_array();
  for (const token_logprob& entry : tokens) {
    json.begin_object();
    write_token(entry.token, entry.logprob);
    json.key("top_logprobs").begin_array();
    for (const auto& [token, logprob] : entry.top) {
      json.begin_object();
      write_token(token, logprob);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("refusal").null().end_object();
}

/// A token as the completions endpoint names it. Its top_logprobs are keyed by this name, so two tokens that
/// are different parts of characters must not both become U+FFFD: OpenAI's form "bytes:\xe2\x80" keeps them
/// apart.
std::string token_name(const std::string& token) {
  if (is_utf8(token)) return token;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string name = "bytes:";
  for (const char c : token) {
    const auto value = static_cast<unsigned char>(c);
    name += "\\x";
    name += digits[value >> 4];
    name += digits[value & 15];
  }
  return name;
}

void write_completion_logprobs(json_writer& json, const response_choice& choice) {
  json.begin_object().key("tokens").begin_array();
  for (const token_logprob& entry : choice.logprobs) json.string(token_name(entry.token));
  json.end_array().key("token_logprobs").begin_array();
  for (const token_logprob& entry : choice.logprobs) json.number(finite_logprob(entry.logprob));
  json.end_array().key("top_logprobs").begin_array();
  for (const token_logprob& entry : choice.logprobs) {
    // The chosen token is always among them, as OpenAI and vLLM have it, and no name comes twice.
    std::vector<std::pair<std::string, float>> named = {{token_name(entry.token), entry.logprob}};
    for (const auto& [token, logprob] : entry.top) {
      std::string name = token_name(token);
      const bool known =
          std::any_of(named.begin(), named.end(), [&](const auto& one) { return one.first == name; });
      if (!known) named.emplace_back(std::move(name), logprob);
    }
    json.begin_object();
    for (const auto& [name, logprob] : named) json.key(name).number(finite_logprob(logprob));
    json.end_object();
  }
  json.end_array().key("text_offset").begin_array();
  std::uint64_t offset = choice.text_offset;
  for (const token_logprob& entry : choice.logprobs) {
    json.count(offset);
    offset += count_characters(entry.token);
  }
  json.end_array().end_object();
}

void write_logprobs(json_writer& json, endpoint kind, const response_choice& choice) {
  json.key("logprobs");
  if (!choice.has_logprobs) {
    json.null();
  } else if (kind == endpoint::chat) {
    write_chat_logprobs(json, choice.logprobs);
  } else {
    write_completion_logprobs(json, choice);
  }
}

void write_finish(json_writer& json, const response_choice& choice) {
  write_text_or_null(json.key("finish_reason"), choice.finish_reason);
  json.key("stop_reason");
  if (choice.stop_reason) {
    json.string(*choice.stop_reason);
  } else {
    json.null();
  }
}

void write_usage(json_writer& json, const usage& counts) {
  json.key("usage").begin_object();
  json.key("prompt_tokens").count(counts.prompt_tokens);
  json.key("completion_tokens").count(counts.completion_tokens);
  json.key("total_tokens").count(counts.prompt_tokens + counts.completion_tokens);
  json.key("prompt_tokens_details")
      .begin_object()
      .key("cached_tokens")
      .count(counts.cached_tokens)
      .end_object();
  json.end_object();
}

void open_document(json_writer& json, const response_identity& identity, std::string_view object) {
  json.begin_object();
  json.key("id").string(identity.id);
  json.key("object").string(object);
  json.key("created").integer(identity.created);
  json.key("model").string(identity.model);
  write_text_or_null(json.key("system_fingerprint"), identity.system_fingerprint);
  json.key("choices").begin_array();
}

std::string_view chunk_object(endpoint kind) {
  return kind == endpoint::chat ? "chat.completion.chunk" : "text_completion";
}

std::string event(json_writer& json) {
  return "data: " + json.take() + "\n\n";
}

/// Closes the list of choices and the chunk.
std::string close_chunk(json_writer& json, const response_identity& identity,
                        const std::optional<usage>& counts) {
  json.end_array();
  if (counts) {
    write_usage(json, *counts);
  } else if (identity.stream_usage) {
    json.key("usage").null();
  }
  json.end_object();
  return event(json);
}

/// One chunk with one choice. `text` is absent in the chunk that ends a choice, whose delta is empty.
std::string choice_chunk(const response_identity& identity, const response_choice& choice, bool has_text,
                         const std::optional<usage>& counts) {
  json_writer json;
  open_document(json, identity, chunk_object(identity.kind));
  json.begin_object().key("index").count(choice.index);
  if (identity.kind == endpoint::chat) {
    json.key("delta").begin_object();
    if (has_text) json.key("content").string(choice.text);
    json.end_object();
  } else {
    json.key("text").string(choice.text);
  }
  write_logprobs(json, identity.kind, choice);
  write_finish(json, choice);
  json.end_object();
  return close_chunk(json, identity, counts);
}

void write_model(json_writer& json, const model_card& card) {
  json.begin_object();
  json.key("id").string(card.id);
  json.key("object").string("model");
  json.key("created").integer(card.created);
  json.key("owned_by").string("yolk");
  json.key("root").string(card.id);
  json.key("parent").null();
  json.key("max_model_len").count(card.max_model_len);
  json.end_object();
}

}  // namespace

std::string format_response_body(const response_identity& identity,
                                 const std::vector<response_choice>& choices, const usage& counts) {
  const bool chat = identity.kind == endpoint::chat;
  json_writer json;
  open_document(json, identity, chat ? "chat.completion" : "text_completion");
  for (const response_choice& choice : choices) {
    json.begin_object().key("index").count(choice.index);
    if (chat) {
      json.key("message").begin_object();
      json.key("role").string("assistant");
      json.key("content").string(choice.text);
      json.key("refusal").null();
      json.end_object();
    } else {
      json.key("text").string(choice.text);
    }
    write_logprobs(json, identity.kind, choice);
    write_finish(json, choice);
    json.end_object();
  }
  json.end_array();
  write_usage(json, counts);
  json.end_object();
  return json.take();
}

std::string sse_role(const response_identity& identity, std::uint32_t index) {
  if (identity.kind != endpoint::chat) return {};
  json_writer json;
  open_document(json, identity, chunk_object(identity.kind));
  json.begin_object().key("index").count(index);
  json.key("delta").begin_object().key("role").string("assistant").key("content").string("").end_object();
  json.key("logprobs").null().key("finish_reason").null().end_object();
  return close_chunk(json, identity, std::nullopt);
}

std::string sse_delta(const response_identity& identity, const response_choice& choice,
                      const std::optional<usage>& running_usage) {
  std::string events;
  const bool has_text = !choice.text.empty() || !choice.logprobs.empty();
  if (has_text) {
    response_choice delta = choice;
    delta.finish_reason.clear();
    delta.stop_reason.reset();
    events += choice_chunk(identity, delta, true, running_usage);
  }
  if (!choice.finish_reason.empty()) {
    response_choice finish;
    finish.index = choice.index;
    finish.finish_reason = choice.finish_reason;
    finish.stop_reason = choice.stop_reason;
    events += choice_chunk(identity, finish, false, running_usage);
  }
  return events;
}

std::string sse_usage(const response_identity& identity, const usage& counts) {
  json_writer json;
  open_document(json, identity, chunk_object(identity.kind));
  return close_chunk(json, identity, counts);
}

std::string sse_error(const api_error& error) {
  return "data: " + to_json(error) + "\n\n";
}

std::string_view sse_done() {
  return "data: [DONE]\n\n";
}

std::string_view sse_keepalive() {
  return ": keep-alive\n\n";
}

std::string format_models(const std::vector<model_card>& cards) {
  json_writer json;
  json.begin_object().key("object").string("list").key("data").begin_array();
  for (const model_card& card : cards) write_model(json, card);
  json.end_array().end_object();
  return json.take();
}

std::string format_model(const model_card& card) {
  json_writer json;
  write_model(json, card);
  return json.take();
}

std::string format_tokenize(const std::vector<core::token_id>& tokens, std::uint32_t max_model_len) {
  json_writer json;
  json.begin_object();
  json.key("count").count(tokens.size());
  json.key("max_model_len").count(max_model_len);
  json.key("tokens").begin_array();
  for (const core::token_id token : tokens) json.count(token);
  json.end_array().end_object();
  return json.take();
}

std::string format_detokenize(std::string_view text) {
  json_writer json;
  json.begin_object().key("prompt").string(text).end_object();
  return json.take();
}

std::uint64_t count_characters(std::string_view text) {
  return static_cast<std::uint64_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace yolk::http
