#include "cli/chat.hpp"

#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/chat_event.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "http/generation_response.hpp"
#include "http/message_parser.hpp"

namespace yolk::cli {

namespace {

using steady = std::chrono::steady_clock;

/// Tokens that came together, in one read, have no rate. The page has the same limit (http/web/chat.js).
constexpr double shortest_rated_seconds = 0.01;

struct server_address {
  std::string host, port, path;
};

/// Empty host: not a URL that this understands.
server_address parse_url(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  if (!url.starts_with(scheme)) return {};
  url.remove_prefix(scheme.size());
  server_address address{.port = "80"};
  const auto slash = url.find('/');
  std::string_view place = url.substr(0, slash);
  if (slash != std::string_view::npos) address.path = url.substr(slash);
  while (address.path.ends_with('/')) address.path.pop_back();
  if (address.path.ends_with("/v1")) address.path.resize(address.path.size() - 3);
  const auto bracket = place.find(']');
  const auto colon = place.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    address.port = place.substr(colon + 1);
    place = place.substr(0, colon);
  }
  unsigned port = 0;
  const char* const end = address.port.data() + address.port.size();
  const auto read = std::from_chars(address.port.data(), end, port);
  if (read.ec != std::errc{} || read.ptr != end || port == 0 || port > 65535) return {};
  if (place.starts_with('[') && place.ends_with(']')) place = place.substr(1, place.size() - 2);
  address.host = place;
  return address;
}

/// A connection to the server; closed with it.
class connection {
 public:
  connection() = default;
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() {
    if (socket_ >= 0) ::close(socket_);
  }

  /// Empty, or why not.
  std::string open(const server_address& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
    if (status != 0) return ::gai_strerror(status);
    std::string error = "no address";
    for (const addrinfo* each = found; each != nullptr && socket_ < 0; each = each->ai_next) {
      const int made = ::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
      if (made >= 0 && ::connect(made, each->ai_addr, each->ai_addrlen) == 0) {
        socket_ = made;
        break;
      }
      error = std::strerror(errno);
      if (made >= 0) ::close(made);
    }
    ::freeaddrinfo(found);
    return socket_ >= 0 ? std::string() : error;
  }

  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// Empty at the end, or when a signal came.
  std::string_view receive() {
    const auto count = ::recv(socket_, buffer_, sizeof buffer_, 0);
    return {buffer_, count > 0 ? static_cast<std::size_t>(count) : 0};
  }

 private:
  int socket_ = -1;
  char buffer_[16384];
};

volatile sig_atomic_t interrupted = 0;  // the one thing that a signal handler may touch

/// While it lives, Ctrl-C ends the answer and not the program. Of use at a terminal only.
class interrupt_guard {
 public:
  explicit interrupt_guard(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    ::sigaction(SIGINT, &action, &before_);  // without SA_RESTART: a waiting recv returns
  }
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;
  ~interrupt_guard() {
    if (wanted_) ::sigaction(SIGINT, &before_, nullptr);
  }

 private:
  bool wanted_;
  struct sigaction before_ {};
};

struct turn {
  std::string role, content;
};

/// A conversation with one server: what was said so far, and the next answer.
class conversation {
 public:
  conversation(const chat_options& options, chat_streams streams)
      : options_(options), streams_(streams), address_(parse_url(options.url)), system_(options.system) {}

  int run();

 private:
  bool command(const std::string& line);
  bool ask(const std::string& prompt);
  std::string receive_answer(connection& server, std::string& answer);
  void take_events(std::string& body, std::string& answer, std::string& error);
  void show(std::string_view text);
  void show_stats(steady::time_point asked) const;
  [[nodiscard]] std::string request() const;
  bool fail(const std::string& why) {
    streams_.notes << "error: " << visible(why) << std::endl;
    return false;
  }

  const chat_options& options_;
  chat_streams streams_;
  server_address address_;
  std::string system_;
  std::vector<turn> turns_;
  chat_event usage_;
  bool answer_ended_ = false;  ///< by [DONE]
  steady::time_point first_token_{}, last_token_{};
};

int conversation::run() {
  if (address_.host.empty()) {
    fail("'" + options_.url + "' is not a URL of the form http://host:port, with a port of 1 to 65535");
    return exit_usage;
  }
  if (streams_.interactive)
    streams_.notes << "Talking to " << options_.url << ". /help lists the commands." << std::endl;
  bool all_good = true;
  std::string line;
  for (;;) {
    if (streams_.interactive) streams_.notes << "> " << std::flush;
    if (!std::getline(streams_.in, line)) break;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (line == "/quit" || line == "/exit") break;
    if (line.starts_with('/') && command(line)) continue;
    all_good = ask(line) && all_good;
    if (!streams_.out) {
      fail("the answer cannot be written");
      return exit_failed;
    }
  }
  if (streams_.interactive) streams_.notes << std::endl;
  return all_good || streams_.interactive ? 0 : exit_failed;
}

/// False: no command, but a prompt that begins with a slash.
bool conversation::command(const std::string& line) {
  if (line == "/reset") {
    turns_.clear();
    streams_.notes << "(the conversation begins anew)" << std::endl;
    return true;
  }
  if (line == "/system" || line.starts_with("/system ")) {
    system_ = line.size() > 8 ? line.substr(8) : std::string();
    turns_.clear();
    streams_.notes << (system_.empty() ? "(no system message; " : "(system message set; ")
                   << "the conversation begins anew)" << std::endl;
    return true;
  }
  if (line == "/help") {
    streams_.notes << "/reset         forget what was said\n"
                      "/system TEXT   set the system message (none without TEXT) and begin anew\n"
                      "/quit          leave\n"
                      "Ctrl-C         end an answer\n"
                   << std::flush;
    return true;
  }
  return false;
}

std::string conversation::request() const {
  std::string body = R"({"stream":true,"stream_options":{"include_usage":true},"messages":[)";
  const char* comma = "";
  const auto add = [&](std::string_view role, std::string_view content) {
    body += comma + (R"({"role":)" + http::quote(role)) + R"(,"content":)" + http::quote(content) + "}";
    comma = ",";
  };
  if (!system_.empty()) add("system", system_);
  for (const turn& each : turns_) add(each.role, each.content);
  body += "]";
  if (!options_.model.empty()) body += R"(,"model":)" + http::quote(options_.model);
  if (options_.max_tokens > 0) body += R"(,"max_tokens":)" + std::to_string(options_.max_tokens);
  if (options_.temperature) body += R"(,"temperature":)" + std::to_string(*options_.temperature);
  body += "}";
  std::string head = "POST " + address_.path + "/v1/chat/completions HTTP/1.1\r\nHost: " + address_.host +
                     ":" + address_.port + "\r\nContent-Type: application/json\r\nConnection: close\r\n";
  if (!options_.api_key.empty()) head += "Authorization: Bearer " + options_.api_key + "\r\n";
  return head + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

bool conversation::ask(const std::string& prompt) {
  const interrupt_guard guard(streams_.interactive);
  connection server;
  if (const std::string error = server.open(address_); !error.empty())
    return fail("cannot connect to " + options_.url + ": " + error);
  turns_.push_back({"user", prompt});
  usage_ = {};
  answer_ended_ = false;
  first_token_ = last_token_ = {};
  const auto asked = steady::now();
  std::string answer;
  const std::string error = server.send(request()) ? receive_answer(server, answer) : "the connection broke";
  if (!answer.empty()) show("\n");
  if (!error.empty()) {
    turns_.pop_back();  // a question without an answer would confuse the next one
    return fail(error);
  }
  turns_.push_back({"assistant", answer});
  if (options_.stats) show_stats(asked);
  return true;
}

/// Empty, or what went wrong. An answer that the user ended is one.
std::string conversation::receive_answer(connection& server, std::string& answer) {
  http::response_parser parser;
  std::string body, error;
  while (!parser.complete() && !parser.failed() && streams_.out) {
    const std::string_view bytes = server.receive();
    if (bytes.empty()) {
      if (interrupted != 0) return {};
      parser.finish();
      break;
    }
    parser.feed(bytes);
    body += parser.take_body();
    if (parser.head_complete() && parser.status() == 200) take_events(body, answer, error);
  }
  body += parser.take_body();
  if (!parser.head_complete()) return "the server closed the connection without an answer";
  if (parser.status() != 200) {
    const std::string message = read_chat_event(body).error;
    return "HTTP " + std::to_string(parser.status()) + (message.empty() ? "" : ": " + message);
  }
  if (!error.empty()) return error;
  return parser.complete() && answer_ended_ ? std::string() : "the answer broke off";
}

/// Takes the complete events off the body.
void conversation::take_events(std::string& body, std::string& answer, std::string& error) {
  for (auto end = body.find("\n\n"); end != std::string::npos; end = body.find("\n\n")) {
    const std::string line = body.substr(0, end);
    body.erase(0, end + 2);
    if (line == "data: [DONE]") answer_ended_ = true;
    if (!line.starts_with("data: ") || answer_ended_) continue;
    const auto data = std::string_view(line).substr(6);
    const chat_event event = read_chat_event(data);
    if (!event.is_json) error = "the server sent what is no JSON: " + std::string(data.substr(0, 80));
    if (!event.error.empty()) error = event.error;
    if (event.has_usage) usage_ = event;
    if (event.content.empty()) continue;
    last_token_ = steady::now();
    if (answer.empty()) first_token_ = last_token_;
    answer += event.content;
    show(event.content);
  }
}

void conversation::show(std::string_view text) {
  if (streams_.out_is_terminal)
    streams_.out << visible(text) << std::flush;
  else
    streams_.out << text << std::flush;
}

void conversation::show_stats(steady::time_point asked) const {
  const auto seconds = [](steady::duration time) { return std::chrono::duration<double>(time).count(); };
  char text[200], rate[40] = "";
  const double after_first = seconds(last_token_ - first_token_);
  if (after_first > shortest_rated_seconds && usage_.completion_tokens > 1)
    std::snprintf(rate, sizeof rate, ", %.1f tokens/s", double(usage_.completion_tokens - 1) / after_first);
  std::snprintf(text, sizeof text,
                "[%llu of %llu prompt tokens cached; first token after %.2f s; %llu tokens%s]",
                static_cast<unsigned long long>(usage_.cached_tokens),
                static_cast<unsigned long long>(usage_.prompt_tokens),
                first_token_ == steady::time_point{} ? 0.0 : seconds(first_token_ - asked),
                static_cast<unsigned long long>(usage_.completion_tokens), rate);
  streams_.notes << text << std::endl;
}

}  // namespace

int run_chat(const chat_options& given) {
  auto options = given;
  if (!options.api_key_file.empty()) {
    std::ifstream file(options.api_key_file);
    if (!(file >> options.api_key)) {
      std::cerr << "yolk chat: --api-key-file " << options.api_key_file
                << ": cannot be read, or holds no key\n";
      return exit_usage;
    }
  }
  return run_chat(
      options, {std::cin, std::cout, std::cerr, ::isatty(STDIN_FILENO) != 0, ::isatty(STDOUT_FILENO) != 0});
}

int run_chat(const chat_options& options, chat_streams streams) {
  return conversation(options, streams).run();
}

}  // namespace yolk::cli
