#include <doctest/doctest.h>

#include "http/generation_request.hpp"

using namespace yolk::http;

TEST_CASE("tokenize takes a prompt or messages") {
  const auto prompt = std::get<tokenize_request>(parse_tokenize_request(R"({"model":"m","prompt":""})"));
  CHECK_FALSE(prompt.is_chat);
  CHECK(prompt.prompt.empty());
  CHECK(prompt.add_special_tokens);
  const auto chat = std::get<tokenize_request>(parse_tokenize_request(
      R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})"));
  CHECK(chat.is_chat);
  CHECK(chat.messages[0].content == "a");
  CHECK_FALSE(chat.add_special_tokens);
  CHECK_FALSE(chat.add_generation_prompt);
  const auto plain =
      std::get<tokenize_request>(parse_tokenize_request(R"({"prompt":"a","add_special_tokens":false})"));
  CHECK_FALSE(plain.add_special_tokens);
}

TEST_CASE("tokenize refuses neither, both and wrong types") {
  for (const std::string_view body :
       {"{}", R"({"prompt":7})", R"({"prompt":"a","messages":[{"role":"user","content":"a"}]})",
        R"({"messages":[]})", R"({"prompt":"a","add_special_tokens":1})", "x"}) {
    CAPTURE(body);
    const auto result = parse_tokenize_request(body);
    REQUIRE(std::holds_alternative<api_error>(result));
    CHECK(std::get<api_error>(result).status == 400);
  }
}

TEST_CASE("detokenize takes a list of ids") {
  using ids = std::vector<yolk::core::token_id>;
  CHECK(std::get<ids>(parse_detokenize_request(R"({"tokens":[1,2,4294967295]})")) == ids{1, 2, 4294967295u});
  CHECK(std::get<ids>(parse_detokenize_request(R"({"tokens":[]})")).empty());
  for (const std::string_view body :
       {"{}", R"({"tokens":7})", R"({"tokens":[-1]})", R"({"tokens":["a"]})", R"({"tokens":[1.5]})"}) {
    CAPTURE(body);
    CHECK(std::get<api_error>(parse_detokenize_request(body)).param.starts_with("tokens"));
  }
}
