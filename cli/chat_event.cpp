#include "cli/chat_event.hpp"

#include <cctype>
#include <charconv>

namespace yolk::cli {

namespace {

constexpr int max_depth = 32;

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      byte(0xE0 | code >> 12);
    } else {
      byte(0xF0 | code >> 18);
      byte(0x80 | (code >> 12 & 0x3F));
    }
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

/// Walks a JSON text and notes the few values that a chat needs, by their path ("choices.0.delta.content").
class event_reader {
 public:
  explicit event_reader(std::string_view json) : rest_(json) {}

  chat_event read() {
    const bool whole = value("", 0);
    skip_space();
    event_.is_json = whole && rest_.empty();
    return event_;
  }

 private:
  bool take(char expected) {
    skip_space();
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void skip_space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
  }

  /// False: not JSON from here on.
  bool value(const std::string& path, int depth) {
    skip_space();
    if (rest_.empty() || depth > max_depth) return false;
    switch (rest_.front()) {
      case '{':
        return object(path, depth);
      case '[':
        return array(path, depth);
      case '"':
        return text(path);
      default:
        return scalar(path);
    }
  }

  bool object(const std::string& path, int depth) {
    take('{');
    if (take('}')) return true;
    do {
      std::string name;
      skip_space();
      if (!string(name) || !take(':') || !value(path.empty() ? name : path + "." + name, depth + 1))
        return false;
    } while (take(','));
    return take('}');
  }

  bool array(const std::string& path, int depth) {
    take('[');
    if (take(']')) return true;
    int index = 0;
    do {
      if (!value(path + "." + std::to_string(index++), depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool text(const std::string& path) {
    std::string content;
    if (!string(content)) return false;
    if (path == "choices.0.delta.content" || path == "choices.0.message.content") event_.content = content;
    if (path == "choices.0.finish_reason") event_.finish_reason = content;
    if (path == "error.message") event_.error = content;
    return true;
  }

  bool scalar(const std::string& path) {
    const auto end = rest_.find_first_of(",]} \t\r\n");
    const std::string_view word = rest_.substr(0, end);
    if (!is_scalar(word)) return false;
    std::uint64_t number = 0;
    std::from_chars(word.data(), word.data() + word.size(), number);
    rest_.remove_prefix(word.size());
    if (path == "usage.prompt_tokens") event_.prompt_tokens = number;
    if (path == "usage.completion_tokens") event_.completion_tokens = number, event_.has_usage = true;
    if (path == "usage.prompt_tokens_details.cached_tokens") event_.cached_tokens = number;
    return true;
  }

  static bool is_scalar(std::string_view word) {
    if (word == "true" || word == "false" || word == "null") return true;
    const auto first = word.substr(word.starts_with('-') ? 1 : 0, 1);
    double number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    return !first.empty() && std::isdigit(static_cast<unsigned char>(first.front())) != 0 &&
           read.ec != std::errc::invalid_argument && read.ptr == word.data() + word.size();
  }

  bool string(std::string& out) {
    if (!rest_.starts_with('"')) return false;
    rest_.remove_prefix(1);
    while (!rest_.empty()) {
      const char next = rest_.front();
      rest_.remove_prefix(1);
      if (next == '"') return true;
      if (next != '\\')
        out += next;
      else if (!escape(out))
        return false;
    }
    return false;
  }

  bool escape(std::string& out) {
    if (rest_.empty()) return false;
    const char kind = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kinds = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (const auto at = kinds.find(kind); at != std::string_view::npos) {
      out += meanings[at];
      return true;
    }
    std::uint32_t code = 0;
    if (kind != 'u' || !hexadecimal(code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && rest_.starts_with("\\u")) {
      rest_.remove_prefix(2);
      std::uint32_t low = 0;
      if (!hexadecimal(low)) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + ((low - 0xDC00) & 0x3FF);
    }
    append_utf8(out, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    return true;
  }

  bool hexadecimal(std::uint32_t& code) {
    if (rest_.size() < 4) return false;
    const auto result = std::from_chars(rest_.data(), rest_.data() + 4, code, 16);
    if (result.ptr != rest_.data() + 4) return false;
    rest_.remove_prefix(4);
    return true;
  }

  std::string_view rest_;
  chat_event event_;
};

}  // namespace

chat_event read_chat_event(std::string_view json) {
  return event_reader(json).read();
}

}  // namespace yolk::cli
