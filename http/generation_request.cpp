#include "http/generation_request.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "http/chat_fields.hpp"
#include "http/field_reader.hpp"
#include "http/json_body.hpp"

namespace yolk::http {
namespace {

using nlohmann::json;

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();  // the body's own limit holds
constexpr std::int64_t max_int32 = std::numeric_limits<std::int32_t>::max();
constexpr integer_range any_seed = {std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::int64_t>::max()};
// Below this the division of logits by the temperature overflows float32; the limit of the process is greedy
// choice.
constexpr float coldest_temperature = 1e-5f;

void read_sampling(field_reader& fields, generation_request& request, const request_limits& limits) {
  core::sampling_params& sampling = request.sampling;
  fields.number("temperature", {0, 2}, sampling.temperature);
  if (sampling.temperature < coldest_temperature) sampling.temperature = 0;
  fields.number("top_p", {0, 1, true}, sampling.top_p);
  sampling.top_p =
      std::max(sampling.top_p, std::numeric_limits<float>::min());  // what rounded to 0 is still above it
  std::int64_t top_k = 0;
  fields.integer("top_k", {-1, max_int32}, top_k);  // vLLM: both -1 and 0 switch it off
  sampling.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(top_k, 0));
  fields.number("min_p", {0, 1}, sampling.min_p);
  fields.number("repetition_penalty", {0.01, 10}, sampling.repetition_penalty);
  fields.number("presence_penalty", {-2, 2}, sampling.presence_penalty);
  fields.number("frequency_penalty", {-2, 2}, sampling.frequency_penalty);
  std::int64_t seed = 0;
  request.seed_given = fields.integer("seed", any_seed, seed);
  sampling.seed = static_cast<std::uint64_t>(seed);
  fields.ids("stop_token_ids", limits.max_stop_token_ids, sampling.stop_token_ids);
  fields.boolean("ignore_eos", sampling.ignore_eos);
}

void read_logit_bias(field_reader& fields, generation_request& request, const request_limits& limits) {
  const json* bias = nullptr;
  if (!fields.object("logit_bias", bias)) return;
  if (bias->size() > limits.max_logit_bias) {
    fields.fail("logit_bias", "logit_bias may have at most " + std::to_string(limits.max_logit_bias) +
                                  " entries, got " + std::to_string(bias->size()) + ".");
    return;
  }
  field_reader entries(*bias, "logit_bias.");
  for (const auto& [key, value] : bias->items()) {
    core::token_id id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (key.empty() || error != std::errc() || end != key.data() + key.size()) {
      fields.fail("logit_bias", "logit_bias has the key \"" + key.substr(0, 64) +
                                    "\"; keys must be token ids, integers from 0 to 4294967295.");
      return;
    }
    float weight = 0;
    if (value.is_null()) entries.refuse(key, "a number from -100 to 100", value);
    entries.number(key, {-100, 100}, weight);
    request.sampling.logit_bias.emplace_back(id, weight);
  }
  fields.adopt(entries.error());
}

void read_lengths(field_reader& fields, generation_request& request) {
  core::sampling_params& sampling = request.sampling;
  std::uint32_t completion_tokens = 0;
  const bool old_name = fields.count("max_tokens", {1, max_int32}, sampling.max_tokens);
  const bool new_name = fields.count("max_completion_tokens", {1, max_int32}, completion_tokens);
  if (old_name && new_name && sampling.max_tokens != completion_tokens) {
    fields.fail("max_tokens", "max_tokens (" + std::to_string(sampling.max_tokens) +
                                  ") and max_completion_tokens (" + std::to_string(completion_tokens) +
                                  ") are two names of one limit and must not differ; send one of them.");
  }
  if (new_name) sampling.max_tokens = completion_tokens;
  fields.count("min_tokens", {0, max_int32}, sampling.min_tokens);
  if (sampling.max_tokens != 0 && sampling.min_tokens > sampling.max_tokens) {
    fields.fail("min_tokens", "min_tokens must be at most max_tokens (" +
                                  std::to_string(sampling.max_tokens) + "), got " +
                                  std::to_string(sampling.min_tokens) + ".");
  }
}

void read_stop(field_reader& fields, generation_request& request, const request_limits& limits) {
  const json* const stop = fields.find("stop");
  if (stop == nullptr) return;
  const std::string wanted = "a string, or a list of at most " + std::to_string(limits.max_stop_strings) +
                             " strings, of 1 to " + std::to_string(limits.max_stop_bytes) + " bytes each";
  const auto add = [&](const json& value) {
    if (!value.is_string() || value.get_ref<const json::string_t&>().empty() ||
        value.get_ref<const json::string_t&>().size() > limits.max_stop_bytes) {
      fields.refuse("stop", wanted, value);
      return;
    }
    request.stop.push_back(value.get_ref<const json::string_t&>());
  };
  if (!stop->is_array()) {
    add(*stop);
  } else if (stop->size() > limits.max_stop_strings) {
    fields.refuse("stop", wanted, *stop);
  } else {
    for (const json& value : *stop) add(value);
  }
}

void read_stream(field_reader& fields, generation_request& request) {
  fields.boolean("stream", request.stream);
  const json* options = nullptr;
  if (!fields.object("stream_options", options)) return;
  if (!request.stream) {
    fields.fail("stream_options", "stream_options is only allowed when stream is true.");
    return;
  }
  field_reader inner(*options, "stream_options.");
  inner.boolean("include_usage", request.include_usage);
  inner.boolean("continuous_usage_stats", request.continuous_usage);
  request.continuous_usage = request.continuous_usage && request.include_usage;
  fields.adopt(inner.error());
}

void read_chat_logprobs(field_reader& fields, generation_request& request, const request_limits& limits) {
  fields.boolean("logprobs", request.sampling.logprobs);
  const bool given =
      fields.count("top_logprobs", {0, limits.max_top_logprobs}, request.sampling.top_logprobs);
  if (given && request.sampling.top_logprobs > 0 && !request.sampling.logprobs) {
    fields.fail("top_logprobs", "top_logprobs (" + std::to_string(request.sampling.top_logprobs) +
                                    ") is only allowed when logprobs is true.");
  }
}

void read_tools(field_reader& fields) {
  const json* const choice = fields.find("tool_choice");
  const bool none = choice != nullptr && choice->is_string() && *choice == "none";
  if (choice != nullptr && !choice->is_string() && !choice->is_object()) {
    fields.refuse("tool_choice", "\"none\" or \"auto\"", *choice);
  } else if (choice != nullptr && !none && *choice != "auto") {
    fields.unsupported("tool_choice",
                       describe(*choice) + " is not supported: this server does not call tools.");
  }
  for (const std::string_view name : {"tools", "functions"}) {
    const json* const tools = fields.find(name);
    if (tools == nullptr) continue;
    if (!tools->is_array()) fields.refuse(name, "a list", *tools);
    if (!tools->empty() && !none) {
      fields.unsupported(name,
                         "is not supported unless tool_choice is \"none\": this server does not call tools.");
    }
  }
}

void read_response_format(field_reader& fields) {
  const json* format = nullptr;
  if (!fields.object("response_format", format)) return;
  field_reader inner(*format, "response_format.");
  std::string type;
  if (!inner.text("type", no_limit, type))
    inner.fail("type", "response_format.type is missing; it must be \"text\".");
  if (!inner.failed() && type != "text") {
    inner.unsupported("type", describe(*inner.find("type")) + " is not supported: only \"text\" is.");
  }
  fields.adopt(inner.error());
}

/// True when the field is there and asks for something: false, 0, "", [] and {} do not.
bool asks(const json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return *value != 0;
  if (value->is_string()) return !value->get_ref<const json::string_t&>().empty();
  return !value->empty();
}

/// Fields that would change the tokens or what is returned, so that to ignore them would be to answer another
/// question.
void refuse_unsupported(field_reader& fields) {
  constexpr std::string_view names[] = {"allowed_token_ids",
                                        "audio",
                                        "bad_words",
                                        "chat_template",
                                        "continue_final_message",
                                        "guided_choice",
                                        "guided_grammar",
                                        "guided_json",
                                        "guided_regex",
                                        "kv_transfer_params",
                                        "length_penalty",
                                        "prediction",
                                        "return_token_ids",
                                        "return_tokens_as_token_ids",
                                        "structured_outputs",
                                        "truncate_prompt_tokens",
                                        "use_beam_search"};
  for (const std::string_view name : names) {
    if (asks(fields.find(name)) && !(name == "length_penalty" && *fields.find(name) == 1)) {
      fields.unsupported(name, "is not supported.");
    }
  }
  // 0 asks for the prompt's own log probabilities; only null and false ask for nothing.
  const json* const prompt_logprobs = fields.find("prompt_logprobs");
  if (prompt_logprobs != nullptr && *prompt_logprobs != false) {
    fields.unsupported("prompt_logprobs", "is not supported.");
  }
}

void read_prompt_list(field_reader& fields, const json& list, generation_request& request,
                      const request_limits& limits) {
  if (list.front().is_number()) {  // one prompt, as ids
    std::vector<core::token_id> ids;
    fields.adopt(read_ids(list, "prompt", ids));
    request.prompts.emplace_back(std::move(ids));
    return;
  }
  if (list.size() > limits.max_prompts) {
    fields.fail("prompt", "prompt may be a list of at most " + std::to_string(limits.max_prompts) +
                              " prompts, got " + std::to_string(list.size()) + ".");
    return;
  }
  for (std::size_t i = 0; i < list.size() && !fields.failed(); ++i) {
    const std::string name = "prompt[" + std::to_string(i) + "]";
    const json& value = list[i];
    if (value.type() != list.front().type() || !(value.is_string() || value.is_array())) {
      fields.fail("prompt", name + " must be " +
                                (list.front().is_array() ? "a list of token ids" : "a string") + ", got " +
                                describe(value) + ".");
    } else if (value.empty() || (value.is_string() && value.get_ref<const json::string_t&>().empty())) {
      fields.fail("prompt", name + " is empty; a prompt must have at least 1 token.");
    } else if (value.is_string()) {
      request.prompts.emplace_back(value.get_ref<const json::string_t&>());
    } else {
      std::vector<core::token_id> ids;
      fields.adopt(read_ids(value, name, ids));
      request.prompts.emplace_back(std::move(ids));
    }
  }
}

void read_prompt(field_reader& fields, generation_request& request, const request_limits& limits) {
  const json* const prompt = fields.find("prompt");
  if (prompt == nullptr) {
    fields.fail(
        "prompt",
        "prompt is missing; it must be a string, a list of strings, a list of token ids, or a list of "
        "lists of token ids.");
  } else if (prompt->is_string()) {
    request.prompts.emplace_back(prompt->get_ref<const json::string_t&>());
    if (prompt->get_ref<const json::string_t&>().empty()) {
      fields.fail("prompt", "prompt is \"\"; a prompt must have at least 1 token.");
    }
  } else if (!prompt->is_array() || prompt->empty()) {
    fields.refuse("prompt", "a string, or a list of one or more strings, token ids or lists of token ids",
                  *prompt);
  } else {
    read_prompt_list(fields, *prompt, request, limits);
  }
}

void read_completions_only(field_reader& fields, generation_request& request, const request_limits& limits) {
  read_prompt(fields, request, limits);
  if (fields.count("logprobs", {0, limits.max_top_logprobs}, request.sampling.top_logprobs)) {
    request.sampling.logprobs = true;
  }
  if (asks(fields.find("top_logprobs"))) {
    fields.unsupported("top_logprobs", "is not supported for completions: logprobs is the number there.");
  }
  fields.boolean("echo", request.echo);
  fields.boolean("add_special_tokens", request.add_special_tokens);
  if (request.echo && request.sampling.logprobs) {
    fields.unsupported(
        "echo", "together with logprobs is not supported: the prompt's log probabilities are not computed.");
  }
  std::uint32_t best_of = request.n;
  fields.count("best_of", {1, limits.max_n}, best_of);
  if (best_of < request.n) {
    fields.fail("best_of", "best_of must be at least n (" + std::to_string(request.n) + "), got " +
                               std::to_string(best_of) + ".");
  } else if (best_of > request.n) {
    fields.unsupported("best_of", "(" + std::to_string(best_of) + ") above n (" + std::to_string(request.n) +
                                      ") is not supported: every choice that is generated is returned.");
  }
  std::string suffix;
  if (fields.text("suffix", no_limit, suffix) && !suffix.empty()) {
    fields.unsupported("suffix", "is not supported: text is generated after the prompt only.");
  }
}

void read_chat_only(field_reader& fields, generation_request& request, const request_limits& limits) {
  read_messages(fields, request.messages);
  read_chat_logprobs(fields, request, limits);
  fields.boolean("add_generation_prompt", request.add_generation_prompt);
  const json* arguments = nullptr;
  if (fields.object("chat_template_kwargs", arguments)) {
    field_reader inner(*arguments, "chat_template_kwargs.");
    inner.boolean("enable_thinking", request.enable_thinking);
    fields.adopt(inner.error());
  }
  if (asks(fields.find("echo"))) fields.unsupported("echo", "is not supported for chat.");
  const json* const modalities = fields.find("modalities");
  if (modalities != nullptr && *modalities != json::array({"text"})) {
    fields.unsupported("modalities", "other than [\"text\"] are not supported.");
  }
}

}  // namespace

generation_result parse_generation_request(endpoint kind, std::string_view body,
                                           const request_limits& limits) {
  json root;
  if (auto error = read_json_object(body, {}, root)) return *std::move(error);
  generation_request request;
  request.kind = kind;
  field_reader fields(root);
  fields.text("model", no_limit, request.model);
  fields.count("n", {1, limits.max_n}, request.n);
  if (kind == endpoint::chat) {
    read_chat_only(fields, request, limits);
  } else {
    read_completions_only(fields, request, limits);
  }
  read_tools(fields);
  read_sampling(fields, request, limits);
  read_logit_bias(fields, request, limits);
  read_lengths(fields, request);
  read_stop(fields, request, limits);
  read_stream(fields, request);
  read_response_format(fields);
  refuse_unsupported(fields);
  fields.boolean("include_stop_str_in_output", request.include_stop_str_in_output);
  fields.boolean("skip_special_tokens", request.skip_special_tokens);
  fields.text("cache_salt", limits.max_salt_bytes, request.cache_salt);
  fields.text("user", limits.max_user_bytes, request.user);
  if (fields.failed()) return *fields.error();
  return request;
}

}  // namespace yolk::http
