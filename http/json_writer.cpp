#include "http/json_writer.hpp"

#include <charconv>
#include <cmath>

#include "http/generation_response.hpp"

namespace yolk::http {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

struct utf8_unit {
  std::size_t length = 1;  ///< bytes to step over
  bool valid = false;
};

/// The character that starts at text[0], or the maximal part of a broken one (Unicode 15, section 3.9, table
/// 3-7).
utf8_unit read_unit(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true};
  std::size_t trailing = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    trailing = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    trailing = 2;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    trailing = 3;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (std::size_t i = 1; i <= trailing; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {trailing + 1, true};
}

void append_escaped(std::string& out, char c) {
  constexpr std::string_view digits = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto value = static_cast<unsigned char>(c);
  out += "\\u00";
  out += digits[value >> 4];
  out += digits[value & 15];
}

bool is_plain(char c) {
  const auto value = static_cast<unsigned char>(c);
  return value >= 0x20 && value < 0x80 && c != '"' && c != '\\';
}

template <class T>
void append_number(std::string& out, T value) {
  char text[48];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 2);
  out += '"';
  while (!text.empty()) {
    std::size_t run = 0;
    while (run < text.size() && is_plain(text[run])) ++run;
    out += text.substr(0, run);
    text.remove_prefix(run);
    if (text.empty()) break;
    const utf8_unit unit = read_unit(text);
    if (!unit.valid) {
      out += replacement;
    } else if (unit.length == 1) {
      append_escaped(out, text[0]);
    } else {
      out += text.substr(0, unit.length);
    }
    text.remove_prefix(unit.length);
  }
  out += '"';
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const utf8_unit unit = read_unit(text);
    if (!unit.valid) return false;
    text.remove_prefix(unit.length);
  }
  return true;
}

std::string quote(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

void json_writer::separate() {
  if (comma_) out_ += ',';
  comma_ = true;
}

json_writer& json_writer::open(char bracket) {
  separate();
  out_ += bracket;
  comma_ = false;
  return *this;
}

json_writer& json_writer::close(char bracket) {
  out_ += bracket;
  comma_ = true;
  return *this;
}

json_writer& json_writer::key(std::string_view name) {
  separate();
  append_quoted(out_, name);
  out_ += ':';
  comma_ = false;
  return *this;
}

json_writer& json_writer::string(std::string_view value) {
  separate();
  append_quoted(out_, value);
  return *this;
}

json_writer& json_writer::integer(std::int64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

json_writer& json_writer::count(std::uint64_t value) {
  separate();
  append_number(out_, value);
  return *this;
}

json_writer& json_writer::number(double value) {
  if (!std::isfinite(value)) return null();
  separate();
  append_number(out_, value);
  return *this;
}

json_writer& json_writer::number(float value) {
  if (!std::isfinite(value)) return null();
  separate();
  append_number(out_, value);
  return *this;
}

json_writer& json_writer::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

json_writer& json_writer::null() {
  separate();
  out_ += "null";
  return *this;
}

}  // namespace yolk::http
