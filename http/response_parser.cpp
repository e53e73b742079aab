#include <charconv>

#include "http/body_reader.hpp"
#include "http/head_lines.hpp"
#include "http/message_parser.hpp"

namespace yolk::http {
namespace {

constexpr std::size_t max_head_bytes = 64 * 1024;
constexpr std::size_t max_chunked_bytes =
    std::size_t{1} << 40;  // a stream has no end of its own; its reader takes it piece by piece

}  // namespace

struct response_parser::state {
  enum class phase : std::uint8_t { status_line, headers, body, complete, failed };

  void parse();
  void use_line(std::string_view line);
  void read_status(std::string_view line);
  void end_head();

  phase now = phase::status_line;
  std::string input;
  std::string_view rest;
  std::size_t head_bytes = 0;
  int status = 0;
  header_list headers;
  body_reader reader = body_reader::none();
  std::string body;
  bool head_complete = false;
};

void response_parser::state::parse() {
  rest = input;
  while (now == phase::status_line || now == phase::headers) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos) break;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    head_bytes += end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    use_line(line);
  }
  const bool in_head = now == phase::status_line || now == phase::headers;
  if (in_head && head_bytes + rest.size() > max_head_bytes) now = phase::failed;
  if (now == phase::body) {
    const body_reader::state result = reader.read(rest, body);
    if (result == body_reader::state::done) now = phase::complete;
    if (result == body_reader::state::malformed || result == body_reader::state::too_large)
      now = phase::failed;
  }
  input.erase(0, input.size() - rest.size());
}

void response_parser::state::use_line(std::string_view line) {
  if (now == phase::status_line) return read_status(line);
  if (line.empty()) return end_head();
  auto header = read_header_line(line);
  if (!header) {
    now = phase::failed;
  } else {
    headers.push_back(std::move(*header));
  }
}

void response_parser::state::read_status(std::string_view line) {
  const bool right = line.size() >= 12 && line.starts_with("HTTP/1.") && line[8] == ' ' &&
                     std::from_chars(line.data() + 9, line.data() + 12, status).ptr == line.data() + 12;
  now = right && status >= 100 ? phase::headers : phase::failed;
}

void response_parser::state::end_head() {
  if (status < 200) {  // an interim response; the one that counts follows
    headers.clear();
    now = phase::status_line;
    return;
  }
  head_complete = true;
  now = phase::body;
  const auto length = find_header(headers, "Content-Length");
  if (status == 204 || status == 304) {
    reader = body_reader::none();
  } else if (list_has(headers, "Transfer-Encoding", "chunked")) {
    reader = body_reader::chunked(max_chunked_bytes);
  } else if (length.empty()) {
    reader = body_reader::until_close();
  } else if (const auto bytes = read_decimal(length)) {
    reader = body_reader::sized(*bytes);
  } else {
    now = phase::failed;
  }
}

response_parser::response_parser() : state_(std::make_unique<state>()) {}
response_parser::~response_parser() = default;
response_parser::response_parser(response_parser&&) noexcept = default;
response_parser& response_parser::operator=(response_parser&&) noexcept = default;

void response_parser::feed(std::string_view bytes) {
  if (failed()) return;
  state_->input += bytes;
  state_->parse();
}

void response_parser::finish() {
  if (complete() || failed()) return;
  const bool whole = state_->now == state::phase::body && state_->reader.ends_with_connection();
  state_->now = whole ? state::phase::complete : state::phase::failed;
}

bool response_parser::head_complete() const {
  return state_->head_complete;
}
int response_parser::status() const {
  return state_->status;
}
std::string response_parser::header(std::string_view name) const {
  return std::string(find_header(state_->headers, name));
}
std::string response_parser::take_body() {
  return std::exchange(state_->body, {});
}
std::string response_parser::take_rest() {
  return complete() ? std::exchange(state_->input, {}) : std::string();
}
bool response_parser::complete() const {
  return state_->now == state::phase::complete;
}
bool response_parser::failed() const {
  return state_->now == state::phase::failed;
}

}  // namespace yolk::http
