#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace yolk::model {

/// One step through text that may not be UTF-8.
struct utf8_step {
  char32_t code_point = 0;  ///< U+FFFD where !valid
  std::uint32_t length =
      0;  ///< bytes; where !valid the longest start of a character (Unicode, "maximal subpart")
  bool valid = false;
  bool cut = false;  ///< !valid, and the text ended where the character could have gone on
};
/// `at` < text.size().
utf8_step utf8_at(std::string_view text, std::size_t at);
/// How many leading bytes are whole, valid characters.
std::size_t utf8_valid_prefix(std::string_view text);
void utf8_append(std::string& text, char32_t code_point);
/// Appends `bytes` to `text`, ill-formed parts as U+FFFD; leaves out (and returns the length of) an
/// unfinished character at the end.
std::size_t utf8_append_lossy(std::string& text, std::string_view bytes);
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

/// Property White_Space: what `\s`, str.strip() and an added token's lstrip mean.
bool is_white_space(char32_t code_point);
/// Letter, mark, number or connector punctuation: what `\w` means.
bool is_word_character(char32_t code_point);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

enum class normal_form : std::uint8_t { nfc, nfd, nfkc, nfkd };
/// Unicode normalisation of valid UTF-8, in time linear in the text but for the sorting of runs of combining
/// marks.
std::string normalized(std::string_view text, normal_form form);
/// Cheap and sure where true: such text is its own normal form.
bool is_plainly_nfc(std::string_view text);

}  // namespace yolk::model
