#include "model/unicode_text.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace yolk::model;

namespace {

std::string lossy(std::string_view bytes) {
  std::string out;
  if (utf8_append_lossy(out, bytes) > 0) out += replacement_character;
  return out;
}

}  // namespace

TEST_CASE("ill-formed bytes become one replacement character for each longest start of a character") {
  CHECK(lossy("plain") == "plain");
  CHECK(lossy("a\xFFz") == "a\uFFFDz");
  CHECK(lossy("\xC0\x80") == "\uFFFD\uFFFD");            // overlong
  CHECK(lossy("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");  // a surrogate
  CHECK(lossy("\xE2\x82") == "\uFFFD");
  CHECK(lossy("\xE2\x82x") == "\uFFFDx");
  CHECK(lossy("\xF0\x9F\x98\x80") == "\U0001F600");
  CHECK(lossy("\xF0\x9F\x98") == "\uFFFD");
  CHECK(lossy("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
}

TEST_CASE("an unfinished character at the end is told from a wrong one") {
  std::string out;
  CHECK(utf8_append_lossy(out, "ab\xE2\x82") == 2);
  CHECK(out == "ab");
  CHECK(utf8_valid_prefix("0123456789\xE2\x82\xAC\xFF") == 13);
  CHECK(utf8_at("\xE2\x82", 0).cut);
  CHECK_FALSE(utf8_at("\xE2z", 0).cut);
}

TEST_CASE("normalisation composes, decomposes and orders marks") {
  CHECK(normalized("cafe\u0301", normal_form::nfc) == "caf\u00E9");
  CHECK(normalized("caf\u00E9", normal_form::nfd) == "cafe\u0301");
  CHECK(normalized("\u1E9B\u0323", normal_form::nfc) == "\u1E9B\u0323");
  CHECK(normalized("\u1E9B\u0323", normal_form::nfkc) == "\u1E69");
  CHECK(normalized("\u1E9B\u0323", normal_form::nfkd) == "s\u0323\u0307");
  CHECK(normalized("q\u0307\u0323", normal_form::nfc) == "q\u0323\u0307");
  CHECK(normalized("\u1112\u1161\u11AB", normal_form::nfc) == "\uD55C");
  CHECK(normalized("\uD55C", normal_form::nfd) == "\u1112\u1161\u11AB");
  CHECK(normalized("\u212B \u2126", normal_form::nfc) == "\u00C5 \u03A9");
  CHECK(normalized("plain \u4F60 text", normal_form::nfc) == "plain \u4F60 text");
  CHECK(is_plainly_nfc("caf\u00E9 \u4F60"));
  CHECK_FALSE(is_plainly_nfc("e\u0301"));
}

TEST_CASE("a long run of marks in the wrong order is normalised without swapping neighbours one by one") {
  // By swaps this takes 10^11 steps: it would not end within the test's time limit.
  std::string text = "a";
  constexpr std::size_t pairs = 400'000;
  for (std::size_t i = 0; i < pairs; ++i) text += "\u0301\u0323";
  const std::string out = normalized(text, normal_form::nfc);
  // The first mark below composes with the letter, then the first above: that leaves one fewer of the first.
  CHECK(out.starts_with("\u1EA1\u0323\u0323"));
  CHECK(out.ends_with("\u0301\u0301"));
  CHECK(out.size() == 3 + (2 * pairs - 1) * 2);
}

TEST_CASE("white space is stripped as the Unicode property says") {
  CHECK(strip_left(" \t\u3000\u0085x ") == "x ");
  CHECK(strip_right(" x \u2003\n") == " x");
  CHECK(strip_right("\u180E") == "\u180E");
  CHECK(strip_right("\xE2\x80") == "\xE2\x80");
}
