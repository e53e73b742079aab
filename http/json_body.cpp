#include "http/json_body.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace yolk::http {
namespace {

using nlohmann::json;

/// Builds the document from nlohmann's events; it differs from the library's own builder in its limits and in
/// knowing which top-level field it is in when the text breaks.
class document_builder : public json::json_sax_t {
 public:
  document_builder(std::string_view body, const json_limits& limits, json& root)
      : body_(body), limits_(limits), root_(root) {}

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value) != nullptr; }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*count*/) override { return open(json::object()); }
  bool start_array(std::size_t /*count*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (stack_.size() == 1) field_ = name;
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const json::exception& error) override {
    if (stack_.empty() && values_ > 0) {
      fail("The body goes on after its JSON value has ended: there is something at byte " +
           std::to_string(position) + ".");
      return false;
    }
    std::string reason = error.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: why; last read: '...'": the
    // library's own tag says nothing to a client, and what was read last may be a megabyte.
    if (const auto tag = reason.find("] "); tag != std::string::npos) reason.erase(0, tag + 2);
    if (const auto last = reason.find("; last read"); last != std::string::npos) reason.erase(last);
    reason.resize(std::min<std::size_t>(reason.size(), 200));
    const std::size_t tail = std::min<std::size_t>(token.size(), 24);
    fail("The body is not valid JSON at byte " + std::to_string(position) + in_field() + ": " + reason +
         "; near '" + token.substr(token.size() - tail) + "'." +
         (names_no_number(position) ? " (JSON has no NaN and no Infinity.)" : ""));
    return false;
  }

  std::optional<api_error> error;

 private:
  /// Whether the text broke in a word that other notations have for what is no number. `position`: of the
  /// last byte that was read, counted from 1.
  bool names_no_number(std::size_t position) const {
    const auto letter = [this](std::size_t at) {
      return at < body_.size() ? static_cast<char>(body_[at] | 0x20) : '\0';
    };
    const auto is_letter = [&](std::size_t at) { return letter(at) >= 'a' && letter(at) <= 'z'; };
    std::size_t begin = position == 0 ? 0 : position - 1;
    while (begin > 0 && is_letter(begin - 1)) --begin;
    std::string word;
    for (std::size_t at = begin; is_letter(at) && word.size() <= 8; ++at) word += letter(at);
    return word == "nan" || word == "inf" || word == "infinity";
  }

  std::string in_field() const { return field_.empty() ? "" : ", in '" + field_.substr(0, 64) + "'"; }

  void fail(std::string message) {
    error.emplace();
    error->message = std::move(message);
    error->param = field_.substr(0, 64);
  }

  json* add(json&& value) {
    if (++values_ > limits_.max_values) {
      fail("The body has more than " + std::to_string(limits_.max_values) + " JSON values" + in_field() +
           ", which is the limit.");
      return nullptr;
    }
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }

  bool open(json&& container) {
    if (stack_.size() >= limits_.max_depth) {
      fail("The body is nested deeper than " + std::to_string(limits_.max_depth) + " levels" + in_field() +
           ", which is the limit.");
      return false;
    }
    json* const place = add(std::move(container));
    if (place != nullptr) stack_.push_back(place);
    return place != nullptr;
  }

  bool close() {
    stack_.pop_back();
    if (stack_.size() == 1) field_.clear();
    return true;
  }

  std::string_view body_;
  json_limits limits_;
  json& root_;
  std::vector<json*> stack_;
  std::string key_;
  std::string field_;
  std::size_t values_ = 0;
};

}  // namespace

std::optional<api_error> read_json_object(std::string_view body, const json_limits& limits, json& root) {
  document_builder builder(body, limits, root);
  const bool complete = json::sax_parse(body.begin(), body.end(), &builder, json::input_format_t::json, true);
  if (builder.error) return builder.error;
  if (!complete || !root.is_object()) {
    api_error error;
    error.message = "The body must be a JSON object.";
    return error;
  }
  return std::nullopt;
}

}  // namespace yolk::http
