#pragma once

#include <optional>
#include <string>

namespace yolk::http {

/// An answer that is no success, in OpenAI's shape: {"error":{"message","type","param","code"}}.
struct api_error {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  ///< the field; null in JSON when empty
  std::string code;   ///< machine-readable, e.g. "context_length_exceeded"; null in JSON when empty
  std::optional<int> retry_after_seconds;
};

/// The JSON body.
std::string to_json(const api_error& error);

}  // namespace yolk::http
