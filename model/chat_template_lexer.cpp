#include "model/chat_template_lexer.hpp"

#include <array>

#include "model/chat_template_value.hpp"
#include "model/unicode_text.hpp"

namespace yolk::model::jinja {

namespace {

constexpr std::array<std::string_view, 27> signs = {"==", "!=", "<=", ">=", "//", "**", "<", ">", "=",
                                                    "+",  "-",  "*",  "/",  "%",  "~",  "|", "(", ")",
                                                    "[",  "]",  "{",  "}",  ",",  ":",  ".", "!", ";"};

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class cutter {
 public:
  explicit cutter(std::string_view source) : source_(source) {}

  std::vector<token> run() {
    // One newline at the very end is not part of a template (keep_trailing_newline is off).
    if (source_.ends_with('\n')) source_.remove_suffix(1);
    while (at_ < source_.size()) {
      const std::size_t open = next_open();
      text(open);
      if (open == std::string_view::npos) break;
      tag();
    }
    add(token::kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::size_t next_open() const {
    for (std::size_t at = source_.find('{', at_); at != std::string_view::npos;
         at = source_.find('{', at + 1)) {
      if (at + 1 < source_.size() &&
          (source_[at + 1] == '{' || source_[at + 1] == '%' || source_[at + 1] == '#'))
        return at;
    }
    return std::string_view::npos;
  }

  void add(token::kind what, std::string text) { tokens_.push_back({what, std::move(text), line_}); }

  /// Text up to the tag at `open`, less what the tags on both sides take away.
  void text(std::size_t open) {
    std::string_view text = source_.substr(at_, open == std::string_view::npos ? open : open - at_);
    const std::size_t after = at_ + text.size();
    if (open != std::string_view::npos) {
      const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
      if (sign == '-') {
        text = strip_right(text);
      } else if (source_[open + 1] != '{' && sign != '+') {
        const std::size_t newline = text.rfind('\n');
        const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
        const bool starts_line = newline != std::string_view::npos || line_starts_;
        if (starts_line && strip_left(text.substr(begin)).empty()) text = text.substr(0, begin);
      }
    }
    if (!text.empty()) add(token::kind::text, std::string(text));
    count_lines(source_.substr(at_, after - at_));
    at_ = after;
  }

  void count_lines(std::string_view part) {
    for (const char c : part) line_ += c == '\n' ? 1 : 0;
  }

  void tag() {
    const char kind = source_[at_ + 1];
    at_ += 2;
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    if (kind == '#') {
      const std::size_t end = source_.find("#}", at_);
      if (end == std::string_view::npos) reject("line " + std::to_string(line_) + ": a comment has no end");
      count_lines(source_.substr(at_, end - at_));
      const bool strips = end > 0 && source_[end - 1] == '-';
      at_ = end + 2;
      close(strips, true);
      return;
    }
    const bool block = kind == '%';
    add(block ? token::kind::open_block : token::kind::open_output, "");
    inside(block);
  }

  /// What a tag's end takes of the text behind it: all white space, or (blocks only) one line break.
  void close(bool strips, bool block) {
    const std::size_t begin = at_;
    if (strips) {
      at_ = source_.size() - strip_left(source_.substr(at_)).size();
    } else if (block && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    count_lines(source_.substr(begin, at_ - begin));
    line_starts_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void inside(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    int braces = 0;
    for (;;) {
      while (at_ < source_.size() &&
             (source_[at_] == ' ' || source_[at_] == '\t' || source_[at_] == '\n' || source_[at_] == '\r')) {
        line_ += source_[at_] == '\n' ? 1 : 0;
        ++at_;
      }
      if (at_ >= source_.size()) reject("line " + std::to_string(line_) + ": a tag has no end");
      const char c = source_[at_];
      const bool strips = (c == '-' || c == '+') && source_.substr(at_ + 1).starts_with(end);
      if (braces == 0 && (strips || source_.substr(at_).starts_with(end))) {
        at_ += strips ? 3 : 2;
        add(block ? token::kind::close_block : token::kind::close_output, "");
        close(strips && c == '-', block && c != '+');
        return;
      }
      if (c == '{') ++braces;
      if (c == '}') --braces;
      piece(c);
    }
  }

  void piece(char c) {
    if (is_name_start(c)) {
      const std::size_t begin = at_;
      while (at_ < source_.size() && (is_name_start(source_[at_]) || is_digit(source_[at_]))) ++at_;
      add(token::kind::name, std::string(source_.substr(begin, at_ - begin)));
    } else if (is_digit(c)) {
      number();
    } else if (c == '"' || c == '\'') {
      string(c);
    } else {
      for (const std::string_view sign : signs) {
        if (source_.substr(at_).starts_with(sign)) {
          at_ += sign.size();
          add(token::kind::sign, std::string(sign));
          return;
        }
      }
      reject("line " + std::to_string(line_) + ": a character that is no part of an expression");
    }
  }

  void number() {
    const std::size_t begin = at_;
    bool whole = true;
    while (at_ < source_.size() && (is_digit(source_[at_]) || source_[at_] == '_')) ++at_;
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      whole = false;
      ++at_;
      while (at_ < source_.size() && is_digit(source_[at_])) ++at_;
    }
    std::string digits;
    for (const char c : source_.substr(begin, at_ - begin)) {
      if (c != '_') digits += c;
    }
    if (digits.size() > 18) reject("line " + std::to_string(line_) + ": a number has more than 18 digits");
    add(whole ? token::kind::integer : token::kind::number, digits);
  }

  void string(char quote) {
    std::string out;
    ++at_;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
        escape(out);
      } else {
        line_ += source_[at_] == '\n' ? 1 : 0;
        out += source_[at_++];
      }
    }
    if (at_ >= source_.size()) reject("line " + std::to_string(line_) + ": a text has no closing quote");
    ++at_;
    add(token::kind::string, std::move(out));
  }

  /// Python's escapes; one that is none stays as it is written.
  void escape(std::string& out) {
    const char c = source_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 'n':
        out += '\n';
        return;
      case 't':
        out += '\t';
        return;
      case 'r':
        out += '\r';
        return;
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'v':
        out += '\v';
        return;
      case 'a':
        out += '\a';
        return;
      case '0':
        out += '\0';
        return;
      case '\n':
        return;
      case '\\':
      case '\'':
      case '"':
        out += c;
        return;
      case 'x':
        return code(out, c, 2);
      case 'u':
        return code(out, c, 4);
      case 'U':
        return code(out, c, 8);
      default:
        out += '\\';
        out += c;
    }
  }
  void code(std::string& out, char letter, std::size_t digits) {
    char32_t code_point = 0;
    const std::string_view hex = source_.substr(at_, digits);
    bool good = hex.size() == digits;
    for (const char c : hex) {
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      good = good && digit >= 0;
      code_point = code_point * 16 + static_cast<char32_t>(digit < 0 ? 0 : digit);
    }
    if (!good || code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) {
      reject("line " + std::to_string(line_) + ": \\" + letter + " is not followed by a character's number");
    }
    utf8_append(out, code_point);
    at_ += digits;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  bool line_starts_ = true;
  std::vector<token> tokens_;
};

}  // namespace

std::vector<token> cut_template(std::string_view source) {
  return cutter(source).run();
}

}  // namespace yolk::model::jinja
