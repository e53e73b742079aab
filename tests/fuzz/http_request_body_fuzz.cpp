// Bodies of the generation and tokenizer endpoints from arbitrary bytes: accepted within their limits, or a
// 400 that says something short. The first byte chooses the endpoint.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/generation_request.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace yolk::http;

void check(const api_error& error) {
  require(error.status == 400, "status 400");
  require(!error.message.empty() && error.message.size() < 1024, "a short message");
  require(!to_json(error).empty(), "a body");
}

void check(const generation_request& request, const request_limits& limits) {
  const auto& sampling = request.sampling;
  require(sampling.temperature >= 0 && sampling.temperature <= 2, "temperature");
  require(sampling.top_p > 0 && sampling.top_p <= 1, "top_p");
  require(sampling.min_p >= 0 && sampling.min_p <= 1, "min_p");
  require(sampling.repetition_penalty > 0, "repetition_penalty");
  require(sampling.top_logprobs <= limits.max_top_logprobs, "top_logprobs");
  require(request.n >= 1 && request.n <= limits.max_n, "n");
  require(request.stop.size() <= limits.max_stop_strings, "stop");
  require(request.kind == endpoint::chat ? !request.messages.empty() : !request.prompts.empty(),
          "something to answer");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const request_limits limits;
  switch (data[0] % 4) {
    case 0:
    case 1: {
      const auto kind = data[0] % 4 == 0 ? endpoint::chat : endpoint::completions;
      const auto result = parse_generation_request(kind, body, limits);
      if (const auto* error = std::get_if<api_error>(&result)) check(*error);
      if (const auto* request = std::get_if<generation_request>(&result)) check(*request, limits);
      break;
    }
    case 2: {
      const auto result = parse_tokenize_request(body);
      if (const auto* error = std::get_if<api_error>(&result)) check(*error);
      break;
    }
    default: {
      const auto result = parse_detokenize_request(body);
      if (const auto* error = std::get_if<api_error>(&result)) check(*error);
      break;
    }
  }
  return 0;
}
