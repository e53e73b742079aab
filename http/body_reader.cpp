#include "http/body_reader.hpp"

#include <algorithm>

#include "http/head_lines.hpp"

namespace yolk::http {
namespace {

constexpr std::size_t max_chunk_line_bytes = 256;  // a size and its extensions, which are ignored
constexpr std::size_t max_trailer_bytes = 8 * 1024;

}  // namespace

body_reader::state body_reader::read(std::string_view& input, std::string& body) {
  while (true) {
    state result = state::more;
    switch (kind_) {
      case kind::done:
        return state::done;
      case kind::until_close:
        body += input;
        input = {};
        return state::more;
      case kind::sized:
      case kind::chunk_data:
        result = take_data(input, body);
        break;
      case kind::chunk_size:
      case kind::chunk_end:
      case kind::trailer:
        result = take_line(input);
        if (result == state::done) result = use_line();
        break;
    }
    if (result != state::done) return result;
  }
}

/// done: this stretch of data is complete and kind_ says what follows.
body_reader::state body_reader::take_data(std::string_view& input, std::string& body) {
  const std::size_t size = std::min(remaining_, input.size());
  body += input.substr(0, size);
  input.remove_prefix(size);
  remaining_ -= size;
  if (remaining_ > 0) return state::more;
  kind_ = kind_ == kind::sized ? kind::done : kind::chunk_end;
  return state::done;
}

/// done: line_ holds a whole line without its end.
body_reader::state body_reader::take_line(std::string_view& input) {
  const std::size_t limit =
      kind_ == kind::trailer ? max_trailer_bytes - trailer_bytes_ : max_chunk_line_bytes;
  const std::size_t end = input.find('\n');
  const std::string_view part = input.substr(0, end == std::string_view::npos ? end : end + 1);
  if (line_.size() + part.size() > limit) return state::malformed;
  line_ += part;
  input.remove_prefix(part.size());
  if (end == std::string_view::npos) return state::more;
  if (kind_ == kind::trailer) trailer_bytes_ += line_.size();
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') return state::malformed;
  line_.resize(line_.size() - 2);
  return state::done;
}

body_reader::state body_reader::use_line() {
  state result = state::done;
  if (kind_ == kind::chunk_end) {
    if (!line_.empty()) result = state::malformed;
    kind_ = kind::chunk_size;
  } else if (kind_ == kind::chunk_size) {
    result = begin_chunk();
  } else if (line_.empty()) {
    kind_ = kind::done;
  } else if (!read_header_line(line_)) {  // trailers are checked, then dropped: no one here asks for them
    result = state::malformed;
  }
  line_.clear();
  return result;
}

body_reader::state body_reader::begin_chunk() {
  constexpr std::size_t max_digits = 15;  // cannot overflow; larger than any limit
  const std::string_view size = trim_blanks(std::string_view(line_).substr(0, line_.find(';')));
  if (size.empty() || size.size() > max_digits || line_.front() == ' ' || line_.front() == '\t')
    return state::malformed;
  std::size_t value = 0;
  for (const char c : size) {
    const std::size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return state::malformed;
    value = value * 16 + (digit < 16 ? digit : digit - 6);
  }
  if (std::any_of(line_.begin(), line_.end(),
                  [](char c) { return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7F; })) {
    return state::malformed;
  }
  if (value > max_bytes_ - total_) return state::too_large;
  total_ += value;
  remaining_ = value;
  kind_ = value == 0 ? kind::trailer : kind::chunk_data;
  return state::done;
}

}  // namespace yolk::http
