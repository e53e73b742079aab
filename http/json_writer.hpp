#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace yolk::http {

/// Appends `text` as a JSON string literal; bytes that are no UTF-8 become U+FFFD, one for each maximal
/// broken part.
void append_quoted(std::string& out, std::string_view text);
/// Whether all of it is well-formed UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF).
bool is_utf8(std::string_view text);

/// Writes JSON text front to back; commas are its affair. Owned by one formatting function, lives for one
/// document, one thread. It does not check that the calls make a document: the callers' tests parse what
/// comes out.
class json_writer {
 public:
  json_writer& begin_object() { return open('{'); }
  json_writer& end_object() { return close('}'); }
  json_writer& begin_array() { return open('['); }
  json_writer& end_array() { return close(']'); }
  json_writer& key(std::string_view name);
  json_writer& string(std::string_view value);
  json_writer& integer(std::int64_t value);
  json_writer& count(std::uint64_t value);
  /// Shortest text that reads back as the same value; JSON has no NaN and no infinity: those become null.
  json_writer& number(double value);
  json_writer& number(float value);
  json_writer& boolean(bool value);
  json_writer& null();
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  json_writer& open(char bracket);
  json_writer& close(char bracket);
  void separate();

  std::string out_;
  bool comma_ = false;
};

}  // namespace yolk::http
