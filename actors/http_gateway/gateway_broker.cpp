#include "actors/http_gateway/gateway_broker.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <chrono>
#include <utility>

#include "actors/http_gateway/answer_writer.hpp"
#include "actors/http_gateway/api_keys.hpp"
#include "actors/http_gateway/descriptor_room.hpp"
#include "actors/http_gateway/plain_session.hpp"

namespace yolk::actors {

namespace schema = messages::schema;
using namespace std::chrono_literals;

namespace {

constexpr auto tick_interval = 200ms;
constexpr auto idle_timeout = 5min;
/// How long a client may take to close its side after the last answer.
constexpr auto linger_timeout = 2s;
constexpr std::size_t read_bytes = std::size_t{16} << 10;
/// A connection's queue is full with so many bytes of bodies, or max_requests_per_connection_queue requests.
constexpr std::size_t max_pending_bytes = std::size_t{1} << 20;
/// The next request waits until the answer before it is nearly out.
constexpr std::uint64_t low_water_bytes = std::uint64_t{64} << 10;
/// Rates are taken over so many reports: some seconds.
constexpr std::size_t max_health_reports = 6;
/// Beyond max_connections so many are told so; further ones are just closed.
constexpr std::size_t max_refused_connections = 64;

http::api_error overloaded(std::string message) {
  return {.status = 503,
          .message = std::move(message),
          .type = "service_unavailable",
          .code = "overloaded",
          .retry_after_seconds = 1};
}

int socket_of(const client_connection& client) {
  return static_cast<int>(client.handle.id());
}

/// The other side has closed or reset. A paused connection is not read, so this is how that is noticed.
bool is_abandoned(const client_connection& client) {
  pollfd question{socket_of(client), POLLRDHUP, 0};
  return ::poll(&question, 1, 0) > 0 && (question.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

caf::behavior gateway_broker(gateway_state::broker_pointer self, int listening_socket,
                             std::shared_ptr<const session_context> context, std::uint64_t random_seed,
                             gateway_scope scope) {
  return self->state.start(listening_socket, std::move(context), random_seed, scope);
}

gateway_state::~gateway_state() {
  // A detached actor does not end by being forgotten.
  if (context_) caf::anon_send_exit(context_->heavy_lane, caf::exit_reason::user_shutdown);
}

caf::behavior gateway_state::start(int listening_socket, std::shared_ptr<const session_context> context,
                                   std::uint64_t random_seed, gateway_scope scope) {
  scope_ = scope;
  context_ = std::move(context);
  random_ = core::random_source(random_seed);
  listening_socket_ = listening_socket;
  listener_ = self_->add_doorman(listening_socket);
  self_->set_down_handler([this](caf::down_msg& down) { session_down(down); });
  tick_later();
  return {
      [this](const caf::io::new_connection_msg& event) { accept(event.handle); },
      [this](const caf::io::new_data_msg& event) { receive(event); },
      [this](const caf::io::data_transferred_msg& event) { written(event); },
      [this](const caf::io::connection_closed_msg& event) { closed(event.handle); },
      [](const caf::io::acceptor_closed_msg&) {},
      [this](const messages::http_output& output) { take_output(output); },
      [this](const messages::peers_changed& changed, const messages::admission_controller_actor& admission,
             const messages::conductor_actor& conductor) {
        change_peers(changed, {admission, conductor});
      },
      [this](const messages::health_report& report) { take_health(report); },
      [this](const messages::status_request& question) { return status(question); },
      [this](messages::tick_atom) { tick(); },
      [this](gateway_drain_atom) { return drain(); },
      [this](gateway_shutdown_atom) { return shut_down(); },
  };
}

// -- events
// ------------------------------------------------------------------------------------------------------

void gateway_state::accept(caf::io::connection_handle handle) {
  const std::uint64_t number = ++last_number_;
  const std::size_t max_connections = context_->options.max_connections;
  const auto room = room_at(static_cast<int>(handle.id()), descriptor_limit());
  if (room == descriptor_room::none || clients_.size() >= max_connections + max_refused_connections) {
    ::shutdown(static_cast<int>(handle.id()), SHUT_RDWR);
    self_->close(handle);
    return;
  }
  const bool full = room == descriptor_room::little || clients_.size() >= max_connections;
  const http::parser_limits limits{.max_queued_requests =
                                       context_->options.max_requests_per_connection_queue};
  client_connection& client = clients_.try_emplace(number, handle, number, limits, now()).first->second;
  numbers_[handle.id()] = number;
  self_->ack_writes(handle, true);
  self_->configure_read(handle, caf::io::receive_policy::at_most(read_bytes));
  if (full)
    refuse(client, overloaded("The server has as many connections as it takes (" +
                              std::to_string(std::min(clients_.size() - 1, max_connections)) + ")."));
}

/// accept() that fails for want of descriptors would be called again at once, and again: nothing is accepted
/// until one can be had.
void gateway_state::pace_accepting() {
  if (draining()) return;
  const bool possible = can_open_another(listening_socket_);
  if (possible == accepting_) return;
  accepting_ = possible;
  if (possible)
    self_->trigger(listener_);
  else
    self_->halt(listener_);
}

void gateway_state::receive(const caf::io::new_data_msg& data) {
  client_connection* client = find(data.handle);
  if (client == nullptr || client->closing) return;
  client->last_activity = now();
  client->parser.feed({data.buf.data(), data.buf.size()});
  client->wants_continue = client->parser.take_expect_continue() || client->wants_continue;
  account(*client);
  if (input_bytes_ > context_->options.max_input_bytes && client->parser.buffered_bytes() > 0)
    return refuse(*client, overloaded("The server holds as many bytes of requests as it can (" +
                                      std::to_string(context_->options.max_input_bytes) + ")."));
  serve(*client);
}

void gateway_state::written(const caf::io::data_transferred_msg& report) {
  client_connection* client = find(report.handle);
  if (client == nullptr) return;
  set_unsent(*client, report.remaining);
  if (report.written > 0) client->last_written = now();
  if (client->closing && client->unsent_bytes == 0 && !client->finished_writing) end_output(*client);
  if (!client->closing && client->unsent_bytes <= low_water_bytes) serve(*client);
}

void gateway_state::closed(caf::io::connection_handle handle) {
  client_connection* client = find(handle);
  if (client == nullptr) return;
  const std::uint64_t number = client->number;
  if (client->session)
    self_->send(client->session, messages::http_gone::build(
                                     [&](schema::HttpGone::Builder gone) { gone.setConnection(number); }));
  end_request(*client);
  input_bytes_ -= client->accounted_bytes;
  set_unsent(*client, 0);
  numbers_.erase(handle.id());
  clients_.erase(number);
  finish_draining();
}

void gateway_state::take_output(const messages::http_output& output) {
  const auto view = output.read();
  const auto found = clients_.find(view->getConnection());
  if (found == clients_.end()) return;
  client_connection& client = found->second;
  // Words of a session that this connection has nothing to do with any more.
  if (!client.session || self_->current_sender() == nullptr ||
      client.session.id() != self_->current_sender()->id())
    return;
  const auto bytes = view->getBytes().asChars();
  std::string_view text(bytes.begin(), bytes.size());
  // One answer may be larger than what a client may leave unread, but not while it leaves something unread.
  const bool too_slow =
      client.unsent_bytes > 0 && client.unsent_bytes + text.size() > context_->options.max_output_bytes;
  if (too_slow || unsent_bytes_ + text.size() > context_->options.max_unsent_bytes) return abort(client);
  write(client, text);
  client.began = true;
  if (!view->getLast()) return;
  end_request(client);
  if (view->getClose() || draining())
    close(client);
  else
    serve(client);
}

void gateway_state::session_down(const caf::down_msg& down) {
  const auto found = sessions_.find(down.source.id());
  if (found == sessions_.end()) return;
  client_connection& client = clients_.at(found->second);
  const bool began = client.began;
  end_request(client);
  if (client.closing) return;
  // Its answer is not complete: it failed, in a way that it did not foresee.
  if (began)
    close(client);
  else
    refuse(client, {.status = 500,
                    .message = "The server failed to process the request.",
                    .type = "internal_error",
                    .code = "internal_error"});
}

void gateway_state::change_peers(const messages::peers_changed& changed, session_peers fresh) {
  peers_ = std::move(fresh);
  peers_message_ = changed;
  for (auto& [number, client] : clients_)
    if (client.session && client.wants_peers)
      self_->send(client.session, peers_message_, peers_.admission, peers_.conductor);
}

void gateway_state::take_health(const messages::health_report& report) {
  health_.emplace_back(now(), report);
  if (health_.size() > max_health_reports) health_.pop_front();
}

health_window gateway_state::recent_health() const {
  if (health_.empty()) return {};
  return {health_.front().second, health_.back().second, health_.back().first - health_.front().first};
}

void gateway_state::tick() {
  tick_later();
  pace_accepting();
  const core::time_point time = now();
  // Looking after one may end it, so the numbers are taken first.
  std::vector<std::uint64_t> open;
  open.reserve(clients_.size());
  for (const auto& [number, client] : clients_) open.push_back(number);
  finish_draining();
  for (const std::uint64_t number : open)
    if (const auto found = clients_.find(number); found != clients_.end()) look_after(found->second, time);
}

void gateway_state::tick_later() {
  // Without a sender: CAF 0.17.6 never empties a dead broker's mailbox, and a message of its own there would
  // keep it alive for good.
  caf::delayed_anon_send(caf::actor(self_), tick_interval, messages::tick_atom::value);
}

void gateway_state::look_after(client_connection& client, core::time_point time) {
  if (client.resumed && !client.paused) {
    // The multiplexer forgets a wish to read that comes while it is about to fulfil an earlier one not to.
    self_->trigger(client.handle);
    client.resumed = false;
  }
  if (client.unsent_bytes > 0 && time - client.last_written > context_->options.read_timeout)
    return abort(client);
  if (client.closing) {
    if (client.finished_writing && time - *client.finished_writing > linger_timeout) abort(client);
    return;
  }
  if (client.paused && is_abandoned(client)) return abort(client);
  if (client.busy || client.paused || client.unsent_bytes > 0) return;
  if (client.request_began && time - *client.request_began > context_->options.read_timeout)
    return refuse(client, {.status = 408,
                           .message = "The request was not complete within " +
                                      std::to_string(context_->options.read_timeout.count()) + " s.",
                           .code = "request_timeout"});
  const auto patience =
      client.served ? core::duration(idle_timeout) : core::duration(context_->options.read_timeout);
  if (!client.request_began && time - client.last_activity > patience) close(client);
}

// -- requests
// ----------------------------------------------------------------------------------------------------

void gateway_state::serve(client_connection& client) {
  const std::size_t max_requests = context_->options.max_requests_per_connection_queue;
  while (!client.closing) {
    client.take_from_parser(max_requests, max_pending_bytes);
    if (client.busy || client.pending.empty() || client.unsent_bytes > low_water_bytes) break;
    client.served = true;
    answer(client, client.next_request());
  }
  if (!client.closing && !client.busy && client.pending.empty()) {
    if (client.parser.error()) return refuse(client, *client.parser.error());
    if (std::exchange(client.wants_continue, false)) write(client, http::continue_response());
  }
  if (client.parser.buffered_bytes() == 0 || client.busy || !client.pending.empty())
    client.request_began.reset();
  else if (!client.request_began)
    client.request_began = now();
  account(client);
  pace_reading(client);
}

void gateway_state::answer(client_connection& client, const http::request_message& request) {
  const routed found = find_route(request.method, request.path, scope_);
  client.head_only = request.method == "HEAD";
  ++answered_;
  std::string tenant;
  if (needs_key(found.where) && !context_->options.api_keys.empty()) {
    auto owner = tenant_of(context_->options.api_keys, request.header("authorization"));
    if (!owner) {
      const http::api_error error{
          .status = 401,
          .message = "Incorrect API key provided: send 'Authorization: Bearer <key>'.",
          .code = "invalid_api_key"};
      write(client, format_error(error, context_->extra_headers, request.keep_alive));
      if (!request.keep_alive || draining()) close(client);
      return;
    }
    tenant = std::move(*owner);
  }
  switch (found.where) {
    case route::chat:
    case route::completions:
    case route::tokenize:
    case route::detokenize:
    case route::metrics:
    case route::cluster:
      return start_session(client, request, found.where, std::move(tenant));
    default:
      answer_now(client, request, found);
      if (!request.keep_alive || draining()) close(client);
  }
}

void gateway_state::start_session(client_connection& client, const http::request_message& request,
                                  route where, std::string tenant) {
  const bool generates = where == route::chat || where == route::completions;
  const auto kind = where == route::chat ? http::endpoint::chat : http::endpoint::completions;
  const auto broker = caf::actor_cast<http_output_sink>(self_);
  if (generates)
    client.session = caf::actor_cast<caf::actor>(self_->system().spawn<generation_session>(
        context_, session_origin{kind, std::move(tenant), random_(), broker, peers_}));
  else
    client.session = caf::actor_cast<caf::actor>(
        spawn_plain_session(self_->system(), context_, {where, broker, recent_health()}));
  client.busy = true;
  client.began = false;
  client.wants_peers = generates;
  client.body_bytes = request.body.size();
  sessions_[client.session.id()] = client.number;
  self_->monitor(client.session);
  const auto words = static_cast<unsigned>(request.body.size() / sizeof(capnp::word) + 64);
  self_->send(
      client.session,
      messages::http_request::build(
          [&](schema::HttpRequest::Builder builder) {
            builder.setConnection(client.number);
            builder.setMethod(request.method);
            builder.setPath(request.path);
            builder.setBody({reinterpret_cast<const capnp::byte*>(request.body.data()), request.body.size()});
            builder.setKeepAlive(request.keep_alive && !draining());
            builder.setMinorVersion(static_cast<std::uint8_t>(request.minor_version));
          },
          words));
}

void gateway_state::refuse(client_connection& client, const http::api_error& error) {
  if (client.closing) return;
  // In the middle of another answer there is no place for this one.
  if (client.busy) return abort(client);
  client.head_only = false;
  write(client, format_error(error, context_->extra_headers, false));
  close(client);
}

// -- sockets
// -----------------------------------------------------------------------------------------------------

void gateway_state::write(client_connection& client, std::string_view bytes) {
  if (client.head_only) {
    const auto end = bytes.find("\r\n\r\n");
    if (end != std::string_view::npos) bytes = bytes.substr(0, end + 4);
  }
  if (bytes.empty()) return;
  if (client.unsent_bytes == 0) client.last_written = now();
  set_unsent(client, client.unsent_bytes + bytes.size());
  client.last_activity = now();
  self_->write(client.handle, bytes.size(), bytes.data());
  self_->flush(client.handle);
}

void gateway_state::close(client_connection& client) {
  if (client.closing) return;
  client.closing = true;
  client.pending.clear();
  client.pending_bytes = 0;
  account(client);
  // Read on until the client closes too: closing over unread bytes would take our last answer from it. (The
  // broker's own close() would detach the socket at once, and not tell when it is gone.)
  pace_reading(client);
  if (client.unsent_bytes == 0) end_output(client);
}

void gateway_state::end_output(client_connection& client) {
  client.finished_writing = now();
  ::shutdown(socket_of(client), SHUT_WR);
}

void gateway_state::abort(client_connection& client) {
  client.closing = true;
  client.pending.clear();
  client.pending_bytes = 0;
  pace_reading(client);
  // The multiplexer notices this as the client's end and tells us.
  ::shutdown(socket_of(client), SHUT_RDWR);
}

void gateway_state::end_request(client_connection& client) {
  if (client.session) {
    sessions_.erase(client.session.id());
    self_->demonitor(client.session.address());
    client.session = {};
  }
  client.busy = false;
  client.began = false;
  client.wants_peers = false;
  client.body_bytes = 0;
}

void gateway_state::pace_reading(client_connection& client) {
  const bool full = client.pending.size() >= context_->options.max_requests_per_connection_queue ||
                    client.pending_bytes >= max_pending_bytes || client.parser.full();
  const bool pause = full && !client.closing;
  if (pause == client.paused) return;
  client.paused = pause;
  client.resumed = !pause;
  if (pause)
    self_->halt(client.handle);
  else
    self_->trigger(client.handle);
}

void gateway_state::account(client_connection& client) {
  const std::size_t bytes = client.closing ? 0 : client.input_bytes();
  input_bytes_ = input_bytes_ - client.accounted_bytes + bytes;
  client.accounted_bytes = bytes;
}

void gateway_state::set_unsent(client_connection& client, std::uint64_t bytes) {
  unsent_bytes_ = unsent_bytes_ - client.unsent_bytes + bytes;
  client.unsent_bytes = bytes;
}

client_connection* gateway_state::find(caf::io::connection_handle handle) {
  const auto number = numbers_.find(handle.id());
  if (number == numbers_.end()) return nullptr;
  return &clients_.at(number->second);
}

// -- draining
// ----------------------------------------------------------------------------------------------------

caf::response_promise gateway_state::drain() {
  auto promise = self_->make_response_promise();
  drained_.push_back(promise);
  if (drained_.size() == 1) self_->close(listener_);
  for (auto& [number, client] : clients_)
    if (!client.busy && client.pending.empty()) close(client);
  finish_draining();
  return promise;
}

caf::response_promise gateway_state::shut_down() {
  for (auto& [number, client] : clients_) {
    client.pending.clear();
    client.pending_bytes = 0;
    // Other sessions have their answer within moments.
    if (client.session && client.wants_peers) self_->send(client.session, gateway_shutdown_atom::value);
  }
  return drain();
}

void gateway_state::finish_draining() {
  if (!draining()) return;
  const bool idle = std::none_of(clients_.begin(), clients_.end(), [](const auto& entry) {
    const client_connection& client = entry.second;
    return client.busy || (!client.closing && !client.pending.empty()) || client.unsent_bytes > 0;
  });
  if (!idle) return;
  for (caf::response_promise& promise : drained_)
    if (promise.pending()) promise.deliver(caf::unit);
}

messages::actor_status gateway_state::status(const messages::status_request& question) const {
  std::uint32_t waiting = 0;
  for (const auto& [number, client] : clients_) waiting += static_cast<std::uint32_t>(client.pending.size());
  return messages::actor_status::build([&](schema::ActorStatus::Builder builder) {
    builder.setSerial(question.read()->getSerial());
    builder.setKind(schema::ActorKind::HTTP_GATEWAY);
    builder.setIncarnation(context_->environment.incarnation.value);
    builder.setRunning(static_cast<std::uint32_t>(sessions_.size()));
    builder.setWaiting(waiting);
    builder.setStepsDone(answered_);
  });
}

}  // namespace yolk::actors
