#include "http/generation_request.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace yolk::http;

namespace {

const request_limits limits;

generation_result chat_with(const std::string& fields) {
  return parse_generation_request(endpoint::chat,
                                  R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}", limits);
}

generation_result completion_with(const std::string& fields) {
  return parse_generation_request(endpoint::completions, R"({"prompt":"hi")" + fields + "}", limits);
}

generation_result chat_body(std::string_view body) {
  return parse_generation_request(endpoint::chat, body, limits);
}

generation_request good(const generation_result& result) {
  if (const auto* error = std::get_if<api_error>(&result)) FAIL(error->message);
  return std::get<generation_request>(result);
}

api_error bad(const generation_result& result) {
  if (!std::holds_alternative<api_error>(result)) {
    FAIL_CHECK("accepted");
    return {.message = "(accepted)"};
  }
  return std::get<api_error>(result);
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an absent field has OpenAI's default") {
  const generation_request request = good(chat_with(""));
  CHECK(request.kind == endpoint::chat);
  CHECK(request.model.empty());
  REQUIRE(request.messages.size() == 1);
  CHECK(request.messages[0].role == "user");
  CHECK(request.messages[0].content == "hi");
  CHECK(request.sampling.temperature == 1.0f);
  CHECK(request.sampling.top_p == 1.0f);
  CHECK(request.sampling.max_tokens == 0);
  CHECK(request.n == 1);
  CHECK_FALSE(request.seed_given);
  CHECK_FALSE(request.stream);
  CHECK(request.add_generation_prompt);
  CHECK(request.enable_thinking);
  CHECK(request.skip_special_tokens);
}

TEST_CASE("every field arrives where the engine reads it") {
  const generation_request request = good(chat_with(
      R"(,"model":"m","temperature":0.5,"top_p":0.25,"top_k":40,"min_p":0.125,"repetition_penalty":1.5,
         "presence_penalty":-2,"frequency_penalty":2,"logit_bias":{"5":-100,"70000":1.5},"seed":-1,"max_tokens":7,
         "min_tokens":3,"stop":["a","bc"],"stop_token_ids":[1,2],"ignore_eos":true,"logprobs":true,"top_logprobs":20,
         "n":3,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
         "include_stop_str_in_output":true,"skip_special_tokens":false,"add_generation_prompt":false,
         "chat_template_kwargs":{"enable_thinking":false,"other":1},"cache_salt":"s","user":"u")"));
  const auto& sampling = request.sampling;
  CHECK(request.model == "m");
  CHECK(sampling.temperature == 0.5f);
  CHECK(sampling.top_p == 0.25f);
  CHECK(sampling.top_k == 40);
  CHECK(sampling.min_p == 0.125f);
  CHECK(sampling.repetition_penalty == 1.5f);
  CHECK(sampling.presence_penalty == -2.0f);
  CHECK(sampling.frequency_penalty == 2.0f);
  CHECK(sampling.logit_bias ==
        std::vector<std::pair<yolk::core::token_id, float>>{{5, -100.0f}, {70000, 1.5f}});
  CHECK(request.seed_given);
  CHECK(sampling.seed == ~std::uint64_t{0});
  CHECK(sampling.max_tokens == 7);
  CHECK(sampling.min_tokens == 3);
  CHECK(request.stop == std::vector<std::string>{"a", "bc"});
  CHECK(sampling.stop_token_ids == std::vector<yolk::core::token_id>{1, 2});
  CHECK(sampling.ignore_eos);
  CHECK(sampling.logprobs);
  CHECK(sampling.top_logprobs == 20);
  CHECK(request.n == 3);
  CHECK(request.stream);
  CHECK(request.include_usage);
  CHECK(request.continuous_usage);
  CHECK(request.include_stop_str_in_output);
  CHECK_FALSE(request.skip_special_tokens);
  CHECK_FALSE(request.add_generation_prompt);
  CHECK_FALSE(request.enable_thinking);
  CHECK(request.cache_salt == "s");
  CHECK(request.user == "u");
}

TEST_CASE("a bad value is a 400 that names the field, the value and the limit") {
  struct wrong {
    std::string field, value, limit;
  };
  const wrong cases[] = {
      {"temperature", "-1", "from 0 to 2"},
      {"temperature", "2.5", "from 0 to 2"},
      {"temperature", "\"hot\"", "from 0 to 2"},
      {"temperature", "true", "from 0 to 2"},
      {"temperature", "[0.5]", "from 0 to 2"},
      {"top_p", "0", "above 0 and at most 1"},
      {"top_p", "1.01", "above 0 and at most 1"},
      {"top_k", "1.5", "an integer from -1 to"},
      {"top_k", "-2", "an integer from -1 to"},
      {"top_k", "4294967296", "an integer from -1 to"},
      {"top_k", "true", "an integer from -1 to"},
      {"min_p", "-0.1", "from 0 to 1"},
      {"min_p", "1.5", "from 0 to 1"},
      {"repetition_penalty", "0", "from 0.01 to 10"},
      {"repetition_penalty", "-1", "from 0.01 to 10"},
      {"presence_penalty", "2.1", "from -2 to 2"},
      {"frequency_penalty", "-2.1", "from -2 to 2"},
      {"seed", "1.5", "an integer from -9223372036854775808 to 9223372036854775807"},
      {"seed", "18446744073709551615", "an integer from -9223372036854775808"},
      {"seed", "\"7\"", "an integer from"},
      {"max_tokens", "0", "an integer from 1 to 2147483647"},
      {"max_tokens", "-5", "an integer from 1 to"},
      {"max_tokens", "1.5", "an integer from 1 to"},
      {"max_tokens", "1e300", "an integer from 1 to"},
      {"max_completion_tokens", "0", "an integer from 1 to"},
      {"min_tokens", "-1", "an integer from 0 to"},
      {"n", "0", "an integer from 1 to 16"},
      {"n", "17", "an integer from 1 to 16"},
      {"stream", "1", "true or false"},
      {"stream", "\"true\"", "true or false"},
      {"stop", "\"\"", "of 1 to 1024 bytes each"},
      {"stop", "7", "at most 16 strings"},
      {"stop", "[\"a\",\"\"]", "of 1 to 1024 bytes each"},
      {"stop", "[7]", "of 1 to 1024 bytes each"},
      {"stop_token_ids", "[-1]", "an integer from 0 to 4294967295"},
      {"stop_token_ids", "7", "a list of at most 256 token ids"},
      {"ignore_eos", "0", "true or false"},
      {"logit_bias", "[1]", "an object"},
      {"logit_bias", "{\"1\":101}", "from -100 to 100"},
      {"logit_bias", "{\"1\":null}", "from -100 to 100"},
      {"logit_bias", "{\"abc\":1}", "integers from 0 to 4294967295"},
      {"logit_bias", "{\"1.5\":1}", "integers from 0 to 4294967295"},
      {"logit_bias", "{\"-1\":1}", "integers from 0 to 4294967295"},
      {"logit_bias", "{\"\":1}", "integers from 0 to 4294967295"},
      {"logit_bias", "{\"4294967296\":1}", "integers from 0 to 4294967295"},
      {"model", "7", "a string"},
      {"cache_salt", "7", "at most 256 bytes"},
      {"user", "{}", "a string"},
      {"stream_options", "[]", "an object"},
      {"response_format", "\"text\"", "an object"},
  };
  for (const wrong& one : cases) {
    CAPTURE(one.field);
    CAPTURE(one.value);
    for (const auto& result : {chat_with(",\"" + one.field + "\":" + one.value),
                               completion_with(",\"" + one.field + "\":" + one.value)}) {
      const api_error error = bad(result);
      CHECK(error.status == 400);
      CHECK(error.type == "invalid_request_error");
      CHECK(error.param.starts_with(one.field));
      CHECK_MESSAGE(contains(error.message, one.field), error.message);
      CHECK_MESSAGE(contains(error.message, one.limit), error.message);
    }
  }
  CHECK(contains(bad(chat_with(R"(,"temperature":-1)")).message, "got -1"));
  CHECK(contains(bad(chat_with(R"(,"top_k":1.5)")).message, "got 1.5"));
  CHECK(contains(bad(chat_with(R"(,"model":[1,2])")).message, "got an array of 2"));
}

TEST_CASE("NaN, Infinity and numbers beyond double are refused and the field is named") {
  for (const std::string value : {"NaN", "Infinity", "-Infinity", "1e999", "nan", "-1e400"}) {
    CAPTURE(value);
    const api_error error = bad(chat_with(",\"top_p\":1,\"temperature\":" + value));
    CHECK(error.status == 400);
    CHECK(error.param == "temperature");
    CHECK_MESSAGE(contains(error.message, "byte"), error.message);
    const bool is_word = value.find_first_of("Nn") != std::string::npos;
    CHECK_MESSAGE(contains(error.message, "JSON has no NaN") == is_word, error.message);
  }
}

TEST_CASE("text behind the body's value is named as that") {
  for (const std::string rest : {"x", " {}", ",", "}", "NaN"}) {
    const api_error error = bad(chat_body(R"({"messages":[{"role":"user","content":"NaN"}]})" + rest));
    CHECK(error.status == 400);
    CHECK_MESSAGE(contains(error.message, "goes on after its JSON value"), error.message);
    CHECK_FALSE(contains(error.message, "JSON has no NaN"));
  }
  CHECK_FALSE(contains(bad(chat_body("nonsense")).message, "JSON has no NaN"));
  good(chat_body(R"({"messages":[{"role":"user","content":"NaN"}]})"
                 " \r\n"));
}

TEST_CASE("integers may be written with a fraction of zero") {
  CHECK(good(chat_with(R"(,"top_k":40.0)")).sampling.top_k == 40);
  CHECK(good(chat_with(R"(,"max_tokens":1e2)")).sampling.max_tokens == 100);
}

TEST_CASE("top_k -1 and 0 switch it off") {
  CHECK(good(chat_with(R"(,"top_k":-1)")).sampling.top_k == 0);
  CHECK(good(chat_with(R"(,"top_k":0)")).sampling.top_k == 0);
}

TEST_CASE("values that float32 cannot hold stay usable") {
  CHECK(good(chat_with(R"(,"temperature":1e-300)")).sampling.temperature == 0.0f);
  const float top_p = good(chat_with(R"(,"top_p":1e-300)")).sampling.top_p;
  CHECK(top_p > 0.0f);
  CHECK(std::isnormal(top_p));
}

TEST_CASE("null is absent for every optional field") {
  const generation_request request = good(completion_with(
      R"(,"model":null,"temperature":null,"top_p":null,"top_k":null,"max_tokens":null,"n":null,"stop":null,"seed":null,
         "stream":null,"stream_options":null,"logprobs":null,"logit_bias":null,"echo":null,"suffix":null,"best_of":null,
         "user":null,"response_format":null,"prompt_logprobs":null,"stop_token_ids":null,"cache_salt":null)"));
  CHECK(request.sampling.temperature == 1.0f);
  CHECK_FALSE(request.sampling.logprobs);
  CHECK_FALSE(request.seed_given);
  good(chat_with(
      R"(,"tools":null,"tool_choice":null,"functions":null,"top_logprobs":null,"chat_template_kwargs":null)"));
}

TEST_CASE("max_tokens and max_completion_tokens are one limit") {
  CHECK(good(chat_with(R"(,"max_completion_tokens":9)")).sampling.max_tokens == 9);
  CHECK(good(chat_with(R"(,"max_completion_tokens":9,"max_tokens":9)")).sampling.max_tokens == 9);
  const api_error error = bad(chat_with(R"(,"max_completion_tokens":9,"max_tokens":8)"));
  CHECK(contains(error.message, "8"));
  CHECK(contains(error.message, "9"));
  CHECK(bad(chat_with(R"(,"max_tokens":4,"min_tokens":5)")).param == "min_tokens");
  CHECK(good(chat_with(R"(,"max_tokens":5,"min_tokens":5)")).sampling.min_tokens == 5);
}

TEST_CASE("stop strings are limited in number and length") {
  CHECK(good(chat_with(R"(,"stop":"END")")).stop == std::vector<std::string>{"END"});
  CHECK(good(chat_with(R"(,"stop":[])")).stop.empty());
  const auto list = [](int count, int bytes) {
    std::string text = ",\"stop\":[";
    for (int i = 0; i < count; ++i)
      text += (i > 0 ? ",\"" : "\"") + std::string(static_cast<std::size_t>(bytes), 's') + '"';
    return text + "]";
  };
  CHECK(good(chat_with(list(16, 1024))).stop.size() == 16);
  CHECK(bad(chat_with(list(17, 1))).param == "stop");
  CHECK(bad(chat_with(list(1, 1025))).param == "stop");
}

TEST_CASE("stream_options without stream is refused") {
  CHECK(bad(chat_with(R"(,"stream_options":{"include_usage":true})")).param == "stream_options");
  CHECK(bad(chat_with(R"(,"stream":false,"stream_options":{})")).param == "stream_options");
  CHECK(bad(chat_with(R"(,"stream":true,"stream_options":{"include_usage":1})")).param ==
        "stream_options.include_usage");
  CHECK_FALSE(good(chat_with(R"(,"stream":true,"stream_options":{})")).include_usage);
}

TEST_CASE("chat messages: content is a string or text parts") {
  const auto messages = [](const std::string& list) { return chat_body("{\"messages\":" + list + "}"); };
  const generation_request request = good(messages(
      R"([{"role":"developer","content":"be kind"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":""},{"role":"user","content":"c","name":"bob"}])"));
  REQUIRE(request.messages.size() == 4);
  CHECK(request.messages[0].role == "system");
  CHECK(request.messages[1].content == "a\nb");
  CHECK(request.messages[2].content.empty());

  const std::pair<std::string, std::string> wrong[] = {
      {"[]", "messages"},
      {"null", "messages"},
      {"\"hi\"", "messages"},
      {"{}", "messages"},
      {"[\"hi\"]", "messages"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":7}])", "messages[0].content"},
      {R"([{"role":"user","content":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":["a"]}])", "messages[0].content"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"text":"a"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])",
       "messages[0].content[0].type"},
      {R"([{"role":"user","content":"a"},{"content":"a"}])", "messages[1].role"},
      {R"([{"role":"wizard","content":"a"}])", "messages[0].role"},
      {R"([{"role":7,"content":"a"}])", "messages[0].role"},
      {R"([{"role":"assistant","content":"a","tool_calls":[{"id":"x"}]}])", "messages[0].tool_calls"},
  };
  for (const auto& [list, param] : wrong) {
    CAPTURE(list);
    const api_error error = bad(messages(list));
    CHECK(error.param == param);
    CHECK(error.status == 400);
  }
  CHECK(bad(chat_body("{}")).param == "messages");
}

TEST_CASE("prompts: a string, strings, ids, or lists of ids") {
  const auto prompts = [](const std::string& prompt) {
    return parse_generation_request(endpoint::completions, "{\"prompt\":" + prompt + "}", limits);
  };
  using ids = std::vector<yolk::core::token_id>;
  using inputs = std::vector<prompt_input>;
  CHECK(good(prompts(R"("a")")).prompts == inputs{"a"});
  CHECK(good(prompts(R"(["a","b"])")).prompts == inputs{"a", "b"});
  CHECK(good(prompts("[1,2,3]")).prompts == inputs{ids{1, 2, 3}});
  CHECK(good(prompts("[[1],[2,3]]")).prompts == inputs{ids{1}, ids{2, 3}});
  for (const std::string wrong :
       {"\"\"", "[]", "[\"\"]", "[[]]", "[[1],[]]", "null", "7", "{}", "true", "[null]", "[1,\"a\"]",
        "[\"a\",1]", "[[1],\"a\"]", "[\"a\",[1]]", "[1.5]", "[-1]", "[4294967296]", "[[1,-1]]", "[[[1]]]"}) {
    CAPTURE(wrong);
    const api_error error = bad(prompts(wrong));
    CHECK(error.status == 400);
    CHECK(error.param.starts_with("prompt"));
  }
  const auto copies = [](int count) {
    std::string text = "[\"a\"";
    for (int i = 1; i < count; ++i) text += ",\"a\"";
    return text + "]";
  };
  CHECK(good(prompts(copies(256))).prompts.size() == 256);
  CHECK(contains(bad(prompts(copies(257))).message, "256"));
}

TEST_CASE("logprobs: a number for completions, a switch and a number for chat") {
  const generation_request zero = good(completion_with(R"(,"logprobs":0)"));
  CHECK(zero.sampling.logprobs);
  CHECK(zero.sampling.top_logprobs == 0);
  CHECK(good(completion_with(R"(,"logprobs":5)")).sampling.top_logprobs == 5);
  CHECK(bad(completion_with(R"(,"logprobs":true)")).param == "logprobs");
  CHECK(bad(completion_with(R"(,"logprobs":21)")).param == "logprobs");
  CHECK(bad(completion_with(R"(,"logprobs":-1)")).param == "logprobs");
  CHECK(bad(chat_with(R"(,"logprobs":5)")).param == "logprobs");
  CHECK(bad(chat_with(R"(,"top_logprobs":2)")).param == "top_logprobs");
  CHECK(bad(chat_with(R"(,"logprobs":true,"top_logprobs":21)")).param == "top_logprobs");
  CHECK(bad(completion_with(R"(,"echo":true,"logprobs":1)")).code == "unsupported_parameter");
  CHECK(good(completion_with(R"(,"echo":true)")).echo);
}

TEST_CASE("what is not implemented is refused by name, and what asks for nothing is accepted") {
  for (const std::string fields :
       {R"("response_format":{"type":"json_object"})",
        R"("response_format":{"type":"json_schema","json_schema":{}})", R"("tools":[{"type":"function"}])",
        R"("tools":[{}],"tool_choice":"auto")", R"("tool_choice":"required")",
        R"("tool_choice":{"type":"function","function":{"name":"f"}})", R"("functions":[{}])",
        R"("prompt_logprobs":0)", R"("guided_json":{"a":1})", R"("structured_outputs":{"regex":"a"})",
        R"("bad_words":["x"])", R"("truncate_prompt_tokens":5)", R"("chat_template":"{{x}}")",
        R"("continue_final_message":true)", R"("use_beam_search":true)", R"("length_penalty":2)",
        R"("return_token_ids":true)", R"("modalities":["audio"])", R"("echo":true)"}) {
    CAPTURE(fields);
    const api_error error = bad(chat_with("," + fields));
    CHECK(error.code == "unsupported_parameter");
    CHECK(contains(fields, error.param.substr(0, error.param.find('.'))));
    CHECK(contains(error.message, error.param));
  }
  for (const std::string fields :
       {R"("best_of":2)", R"("n":2,"best_of":3)", R"("suffix":"end")", R"("tools":[{"type":"function"}])",
        R"("functions":[{}])", R"("tool_choice":"required")", R"("top_logprobs":2)"}) {
    CAPTURE(fields);
    const api_error error = bad(completion_with("," + fields));
    CHECK(error.code == "unsupported_parameter");
    CHECK(contains(fields, error.param));
  }
  good(completion_with(R"(,"tools":[],"functions":[],"tool_choice":"none","top_logprobs":0)"));
  CHECK(bad(completion_with(R"(,"n":3,"best_of":2)")).param == "best_of");
  good(completion_with(R"(,"n":2,"best_of":2,"suffix":"","echo":false,"use_beam_search":false)"));
  good(chat_with(
      R"(,"response_format":{"type":"text"},"tools":[{"type":"function"}],"tool_choice":"none","bad_words":[],
                    "continue_final_message":false,"length_penalty":1.0,"modalities":["text"],"prompt_logprobs":false)"));
  good(chat_with(R"(,"tools":[],"tool_choice":"auto")"));
}

TEST_CASE("unknown fields are accepted, and of a field given twice the last counts") {
  const auto request =
      good(chat_with(R"(,"metadata":{"a":[1,{"b":null}]},"service_tier":"auto","xyz":-1e5,"n":2,"n":3)"));
  CHECK(request.n == 3);
}

TEST_CASE("what is no JSON object is a 400 with the position") {
  for (const std::string_view body :
       {"", " ", "{", "{\"a\":}", "[1]", "7", "null", "\"x\"", "{} {}", "{\"a\":1,}", "\x01\x02",
        "{\"a\":\"\xff\"}", "{'a':1}", "{\"a\":\"\\ud800\"}", "{\"a\":01}"}) {
    CAPTURE(body);
    const api_error error = bad(chat_body(body));
    CHECK(error.status == 400);
    CHECK(contains(error.message, "JSON"));
  }
  CHECK(contains(bad(chat_body("{\"a\":1,\n\"b\":x}")).message, "byte 13"));
  CHECK(contains(bad(chat_body("{\"a\":1,\n\"b\":x}")).message, "'b'"));
}

TEST_CASE("an error message stays short whatever the client sent") {
  const std::string large(1'000'000, 'x');
  CHECK(bad(chat_with(",\"temperature\":\"" + large + "\"")).message.size() < 300);
  CHECK(bad(chat_with(",\"" + large + "\":nope")).message.size() < 500);
  CHECK(bad(chat_body("{\"a\":\"" + large)).message.size() < 500);
  CHECK(bad(chat_with(",\"logit_bias\":{\"" + large + "\":1}")).message.size() < 300);
}

TEST_CASE("nesting and the number of values are bounded") {
  const auto nested = [](std::size_t depth) {
    return ",\"x\":" + std::string(depth, '[') + std::string(depth, ']');
  };
  good(chat_with(nested(31)));
  CHECK(contains(bad(chat_with(nested(32))).message, "32 levels"));
  CHECK(contains(bad(chat_with(nested(2'000'000))).message, "'x'"));
  std::string many = ",\"x\":[0";
  for (int i = 0; i < 4'200'000; ++i) many += ",0";
  CHECK(contains(bad(chat_with(many + "]")).message, "4194304"));
}
