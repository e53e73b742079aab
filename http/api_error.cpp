#include "http/api_error.hpp"

#include "http/json_writer.hpp"

namespace yolk::http {

std::string to_json(const api_error& error) {
  const auto text_or_null = [](json_writer& json, const std::string& text) {
    if (text.empty()) {
      json.null();
    } else {
      json.string(text);
    }
  };
  json_writer json;
  json.begin_object().key("error").begin_object();
  json.key("message").string(error.message);
  json.key("type").string(error.type);
  text_or_null(json.key("param"), error.param);
  text_or_null(json.key("code"), error.code);
  json.end_object().end_object();
  return json.take();
}

}  // namespace yolk::http
