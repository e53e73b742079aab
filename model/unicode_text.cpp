#include "model/unicode_text.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace yolk::model {

namespace {

struct byte_range {
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
};

/// The Unicode standard, table 3-7: which second bytes make a well-formed sequence.
byte_range second_byte(std::uint8_t lead) {
  switch (lead) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {};
  }
}

std::uint32_t sequence_length(std::uint8_t lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

std::size_t ascii_prefix(std::string_view text, std::size_t at) {
  constexpr std::uint64_t high_bits = 0x8080808080808080ull;
  while (at + 8 <= text.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & high_bits) != 0) break;
    at += 8;
  }
  while (at < text.size() && static_cast<std::uint8_t>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

utf8_step utf8_at(std::string_view text, std::size_t at) {
  const auto lead = static_cast<std::uint8_t>(text[at]);
  if (lead < 0x80) return {lead, 1, true, false};
  const std::uint32_t length = sequence_length(lead);
  if (length == 0) return {0xFFFD, 1, false, false};
  char32_t code_point = lead & (0x7Fu >> length);
  for (std::uint32_t i = 1; i < length; ++i) {
    if (at + i >= text.size()) return {0xFFFD, i, false, true};
    const auto byte = static_cast<std::uint8_t>(text[at + i]);
    const byte_range allowed = i == 1 ? second_byte(lead) : byte_range{};
    if (byte < allowed.low || byte > allowed.high) return {0xFFFD, i, false, false};
    code_point = (code_point << 6) | (byte & 0x3Fu);
  }
  return {code_point, length, true, false};
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    at = ascii_prefix(text, at);
    while (at < text.size() && static_cast<std::uint8_t>(text[at]) >= 0x80) {
      const utf8_step step = utf8_at(text, at);
      if (!step.valid) return at;
      at += step.length;
    }
  }
  return at;
}

void utf8_append(std::string& text, char32_t code_point) {
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    text.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else if (code_point < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    text.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  } else {
    text.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    text.push_back(static_cast<char>(0x80 | ((code_point >> 12) & 0x3F)));
    text.push_back(static_cast<char>(0x80 | ((code_point >> 6) & 0x3F)));
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  }
}

std::size_t utf8_append_lossy(std::string& text, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t valid = utf8_valid_prefix(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const utf8_step step = utf8_at(bytes, 0);
    if (step.cut) return bytes.size();
    text.append(replacement_character);
    bytes.remove_prefix(step.length);
  }
  return 0;
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const utf8_step step = utf8_at(text, 0);
    if (!step.valid || !is_white_space(step.code_point)) break;
    text.remove_prefix(step.length);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    std::size_t at = text.size() - 1;
    while (at > 0 && text.size() - at < 4 && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    const utf8_step step = utf8_at(text, at);
    if (!step.valid || at + step.length != text.size() || !is_white_space(step.code_point)) break;
    text = text.substr(0, at);
  }
  return text;
}

namespace {

using code_points = std::vector<utf8proc_int32_t>;

/// Starts a stretch that can be normalised by itself: a starter that no character before it composes with,
/// and that stays what it is (Unicode annex 15, "stable code points", read from utf8proc's tables).
bool is_stable(char32_t c) {
  if (c < 0x300) return c < 0xA0;
  if (c >= 0x1160 && c <= 0x11FF) return false;  // Hangul vowels and finals compose by arithmetic
  if (c >= 0xAC00 && c <= 0xD7A3) return false;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return property->combining_class == 0 && property->decomp_seqindex == UINT16_MAX &&
         property->comb_index == UINT16_MAX;
}

void decompose(std::string_view text, utf8proc_option_t options, code_points& out) {
  std::array<utf8proc_int32_t, 32> buffer{};
  int boundary_class = UTF8PROC_BOUNDCLASS_START;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = utf8_at(text, at);
    at += step.length;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), buffer.data(),
                                static_cast<utf8proc_ssize_t>(buffer.size()), options, &boundary_class);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(buffer.size())) {
      out.push_back(static_cast<utf8proc_int32_t>(step.code_point));
    } else {
      out.insert(out.end(), buffer.begin(), buffer.begin() + count);
    }
  }
}

/// Canonical ordering. utf8proc_decompose does this by swapping neighbours, which is quadratic in a run of
/// marks.
void order_marks(code_points& text) {
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (std::size_t at = 0; at < text.size();) {
    if (combining_class(text[at]) == 0) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

void normalize_stretch(std::string_view text, normal_form form, code_points& scratch, std::string& out) {
  const bool compatible = form == normal_form::nfkc || form == normal_form::nfkd;
  const bool compose = form == normal_form::nfc || form == normal_form::nfkc;
  scratch.clear();
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  decompose(text, static_cast<utf8proc_option_t>(options), scratch);
  order_marks(scratch);
  auto length = static_cast<utf8proc_ssize_t>(scratch.size());
  if (compose) {
    length = utf8proc_normalize_utf32(scratch.data(), length,
                                      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  }
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    utf8_append(out, static_cast<char32_t>(scratch[static_cast<std::size_t>(i)]));
  }
}

}  // namespace

bool is_plainly_nfc(std::string_view text) {
  // Everything below U+0300 is its own NFC, and so are stable characters; U+0300 is CC 80.
  for (std::size_t at = ascii_prefix(text, 0); at < text.size(); at = ascii_prefix(text, at)) {
    const utf8_step step = utf8_at(text, at);
    if (step.code_point >= 0x300 && !is_stable(step.code_point)) return false;
    at += step.length;
  }
  return true;
}

std::string normalized(std::string_view text, normal_form form) {
  std::string out;
  out.reserve(text.size());
  code_points scratch;
  // A stretch runs from one stable character to the next; those of one stable character alone are copied.
  std::size_t begin = 0;
  bool plain = true;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = utf8_at(text, at);
    if (is_stable(step.code_point)) {
      if (!plain) normalize_stretch(text.substr(begin, at - begin), form, scratch, out);
      if (plain) out.append(text.substr(begin, at - begin));
      begin = at;
      plain = true;
    } else {
      plain = false;
    }
    at += step.length;
  }
  if (plain) {
    out.append(text.substr(begin));
  } else {
    normalize_stretch(text.substr(begin), form, scratch, out);
  }
  return out;
}

}  // namespace yolk::model
