#include "http/message_parser.hpp"

#include <algorithm>
#include <deque>

#include "http/body_reader.hpp"
#include "http/head_lines.hpp"

namespace yolk::http {
namespace {

constexpr int max_blank_lines =
    4;  // before a request line; some clients end a body with one line break too many

/// Splits "/path?a=b", decoding as it goes; false when an escape or a character is wrong.
bool read_target(request_message& message) {
  std::string_view target = message.target;
  const bool visible =
      std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7F && c != '#'; });
  if (target.empty() || !visible) return false;
  if (target == "*") {
    message.path = "*";
    return message.method == "OPTIONS";
  }
  for (const std::string_view scheme : {"http://", "https://"}) {  // absolute form, which proxies send
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const auto slash = target.find_first_of("/?", scheme.size());
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    break;
  }
  const auto question = target.find('?');
  auto path = percent_decode(target.substr(0, question), false);
  if (!path || !path->starts_with('/')) return false;
  message.path = std::move(*path);
  std::string_view query =
      question == std::string_view::npos ? std::string_view{} : target.substr(question + 1);
  while (!query.empty()) {
    const auto end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query = end == std::string_view::npos ? std::string_view{} : query.substr(end + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    auto key = percent_decode(pair.substr(0, equals), true);
    auto value =
        percent_decode(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1), true);
    if (!key || !value) return false;
    message.query.insert_or_assign(std::move(*key), std::move(*value));
  }
  return true;
}

}  // namespace

std::string_view request_message::header(std::string_view name) const {
  return find_header(headers, name);
}

struct request_parser::state {
  enum class phase : std::uint8_t { request_line, headers, body, ended };

  explicit state(parser_limits given) : limits(given) {}

  void parse();
  bool parse_head_line();
  bool parse_body();
  void read_request_line(std::string_view line);
  void read_header(std::string_view line);
  void end_head();
  bool choose_body();
  void finish_message();
  void fail(int status, std::string text);
  [[nodiscard]] bool full() const;
  [[nodiscard]] std::size_t pending_bytes() const { return input.size() - consumed; }
  [[nodiscard]] std::string_view rest() const { return std::string_view(input).substr(consumed); }

  parser_limits limits;
  phase now = phase::request_line;
  std::string input;  // bytes not parsed yet, from `consumed` on
  std::size_t consumed = 0;
  std::size_t searched = 0;  // of the pending bytes, how many are known to hold no line end
  std::size_t head_bytes = 0;
  int blank_lines = 0;
  request_message message;  // the one in progress
  body_reader body = body_reader::none();
  bool expects_continue = false;
  std::deque<request_message> queue;
  std::size_t queued_body_bytes = 0;
  std::optional<api_error> error;
};

bool request_parser::state::full() const {
  return queue.size() >= limits.max_queued_requests || queued_body_bytes >= limits.max_body_bytes;
}

void request_parser::state::fail(int status, std::string text) {
  error.emplace();
  error->status = status;
  error->message = std::move(text);
  now = phase::ended;
  message = {};
  input = {};
  consumed = 0;
  expects_continue = false;
}

void request_parser::state::parse() {
  bool progress = true;
  while (progress && now != phase::ended && !full()) {
    progress = now == phase::body ? parse_body() : parse_head_line();
  }
  // What is parsed is cut off when it is most of the buffer, so that each byte is moved a bounded number of
  // times.
  if (consumed == input.size()) {
    input.clear();
    if (input.capacity() > limits.max_header_bytes) input.shrink_to_fit();
    consumed = 0;
  } else if (consumed > input.size() / 2) {
    input.erase(0, consumed);
    consumed = 0;
  }
}

/// One line of the head; false when there is no whole one.
bool request_parser::state::parse_head_line() {
  const std::string_view bytes = rest();
  const auto end = bytes.find('\n', searched);
  const std::size_t line_bytes = end == std::string_view::npos ? bytes.size() : end + 1;
  if (head_bytes + line_bytes > limits.max_header_bytes) {
    fail(431, "The request's head is larger than " + std::to_string(limits.max_header_bytes) +
                  " bytes, which is the limit.");
    return false;
  }
  if (end == std::string_view::npos) {
    searched = bytes.size();
    return false;
  }
  searched = 0;
  head_bytes += line_bytes;
  consumed += line_bytes;
  if (end == 0 || bytes[end - 1] != '\r') {
    fail(400, "A line of the request's head does not end with CR LF.");
    return false;
  }
  const std::string_view line = bytes.substr(0, end - 1);
  if (now == phase::headers) {
    if (line.empty()) {
      end_head();
    } else {
      read_header(line);
    }
  } else if (!line.empty()) {
    read_request_line(line);
  } else if (++blank_lines > max_blank_lines) {
    fail(400, "The connection sends blank lines where a request should begin.");
  }
  return now != phase::ended;
}

void request_parser::state::read_request_line(std::string_view line) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !is_token(line.substr(0, first))) {
    return fail(400, "The request line must be METHOD TARGET HTTP/1.1.");
  }
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool other = version.starts_with("HTTP/") && version.size() == 8;
    return other ? fail(505, "This server speaks HTTP/1.1 and HTTP/1.0 only.")
                 : fail(400, "The request line must be METHOD TARGET HTTP/1.1.");
  }
  message.method = line.substr(0, first);
  message.target = line.substr(first + 1, last - first - 1);
  message.minor_version = version.back() - '0';
  if (!read_target(message)) {
    return fail(
        400,
        "The request's target is malformed: it must begin with '/', and hold no blank, no '#', no character "
        "outside ASCII and no broken percent-encoding.");
  }
  now = phase::headers;
}

void request_parser::state::read_header(std::string_view line) {
  if (message.headers.size() >= limits.max_header_count) {
    return fail(431, "The request has more than " + std::to_string(limits.max_header_count) +
                         " headers, which is the limit.");
  }
  auto header = read_header_line(line);
  if (!header) return fail(400, "A header of the request is malformed: it must be one line 'Name: value'.");
  message.headers.push_back(std::move(*header));
}

void request_parser::state::end_head() {
  const std::size_t hosts = count_headers(message.headers, "Host");
  if (hosts > 1 || (hosts == 0 && message.minor_version == 1)) {
    return fail(400, "The request must have exactly one Host header, and has " + std::to_string(hosts) + ".");
  }
  const bool close = list_has(message.headers, "Connection", "close");
  message.keep_alive =
      !close && (message.minor_version == 1 || list_has(message.headers, "Connection", "keep-alive"));
  const std::string_view coding = find_header(message.headers, "Content-Encoding");
  if (!coding.empty() && !equal_ignoring_case(coding, "identity")) {
    return fail(415, "The request's body is encoded as '" + std::string(coding.substr(0, 64)) +
                         "' (Content-Encoding); this server takes it plain only.");
  }
  if (!choose_body()) return;
  now = phase::body;
  const std::string_view expect = find_header(message.headers, "Expect");
  if (expect.empty() || message.minor_version == 0) return;
  if (!equal_ignoring_case(expect, "100-continue")) {
    return fail(
        417, "The request expects '" + std::string(expect.substr(0, 64)) + "'; only 100-continue is known.");
  }
  expects_continue = true;
}

/// How the body is framed. Whatever two readers could understand in two ways is refused (RFC 9112,
/// section 6.3).
bool request_parser::state::choose_body() {
  const std::size_t lengths = count_headers(message.headers, "Content-Length");
  const std::size_t codings = count_headers(message.headers, "Transfer-Encoding");
  if (codings > 0) {
    if (lengths > 0) {
      fail(400, "The request has both Content-Length and Transfer-Encoding.");
    } else if (codings > 1 || message.minor_version == 0) {
      fail(400, "The request's Transfer-Encoding is malformed, or sent by an HTTP/1.0 client.");
    } else if (!equal_ignoring_case(find_header(message.headers, "Transfer-Encoding"), "chunked")) {
      fail(501, "The request's Transfer-Encoding is not supported; only 'chunked' is.");
    } else {
      body = body_reader::chunked(limits.max_body_bytes);
    }
    return !error;
  }
  if (lengths == 0) {
    body = body_reader::none();
    return true;
  }
  const auto length = read_decimal(find_header(message.headers, "Content-Length"));
  if (lengths > 1 || !length) {
    fail(400, "The request's Content-Length must be one decimal number.");
  } else if (*length > limits.max_body_bytes) {
    fail(413, "The request's body has " +
                  std::string(find_header(message.headers, "Content-Length").substr(0, 24)) +
                  " bytes; the limit is " + std::to_string(limits.max_body_bytes) + " bytes.");
  } else {
    body = body_reader::sized(*length);
  }
  return !error;
}

/// False when the body is not complete.
bool request_parser::state::parse_body() {
  std::string_view bytes = rest();
  const body_reader::state result = body.read(bytes, message.body);
  consumed = input.size() - bytes.size();
  if (!bytes.empty() || result == body_reader::state::done || !message.body.empty()) expects_continue = false;
  if (result == body_reader::state::malformed) fail(400, "The request's chunked body is malformed.");
  if (result == body_reader::state::too_large) {
    fail(413, "The request's body is larger than " + std::to_string(limits.max_body_bytes) +
                  " bytes, which is the limit.");
  }
  if (result != body_reader::state::done) return false;
  finish_message();
  return true;
}

void request_parser::state::finish_message() {
  now = message.keep_alive ? phase::request_line : phase::ended;
  queued_body_bytes += message.body.size();
  queue.push_back(std::move(message));
  message = {};
  head_bytes = 0;
  blank_lines = 0;
  if (now == phase::ended) {
    input = {};
    consumed = 0;
  }
}

request_parser::request_parser(parser_limits limits) : state_(std::make_unique<state>(limits)) {}
request_parser::~request_parser() = default;
request_parser::request_parser(request_parser&&) noexcept = default;
request_parser& request_parser::operator=(request_parser&&) noexcept = default;

void request_parser::feed(std::string_view bytes) {
  state& self = *state_;
  if (self.now == state::phase::ended) return;
  self.input += bytes;
  self.parse();
  if (buffered_bytes() > self.limits.max_header_bytes + self.limits.max_body_bytes + 64 * 1024 &&
      self.full()) {
    self.fail(400, "The connection sends more requests than it waits for answers.");
  }
}

std::optional<request_message> request_parser::next() {
  state& self = *state_;
  if (self.queue.empty()) return std::nullopt;
  request_message message = std::move(self.queue.front());
  self.queue.pop_front();
  self.queued_body_bytes -= message.body.size();
  self.parse();
  return message;
}

const std::optional<api_error>& request_parser::error() const {
  return state_->error;
}

bool request_parser::take_expect_continue() {
  return std::exchange(state_->expects_continue, false);
}

std::size_t request_parser::buffered_bytes() const {
  const state& self = *state_;
  std::size_t bytes = self.pending_bytes() + self.message.body.size();
  if (self.now == state::phase::headers || self.now == state::phase::body) {
    bytes += self.head_bytes + self.body.held_bytes();
  }
  return bytes;
}

bool request_parser::full() const {
  return state_->full();
}

}  // namespace yolk::http
