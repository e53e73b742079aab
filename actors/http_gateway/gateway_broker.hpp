#pragma once

#include <caf/io/broker.hpp>
#include <caf/io/system_messages.hpp>
#include <caf/stateful_actor.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "actors/http_gateway/client_connection.hpp"
#include "actors/http_gateway/cluster_answer.hpp"
#include "actors/http_gateway/generation_session.hpp"
#include "actors/http_gateway/routes.hpp"
#include "actors/http_gateway/session_context.hpp"
#include "core/random.hpp"
#include "messages/interfaces.hpp"

namespace yolk::actors {

/// The broker's state: sockets and whose turn it is on each. It runs on the one thread that moves all bytes,
/// so it parses HTTP and nothing else: bodies go to a session, one per request. Owned by the broker actor.
class gateway_state {
 public:
  using broker_pointer = caf::stateful_actor<gateway_state, caf::io::broker>*;
  static inline const char* name = "http_gateway";

  explicit gateway_state(broker_pointer self) : self_(self) {}
  ~gateway_state();
  gateway_state(const gateway_state&) = delete;
  gateway_state& operator=(const gateway_state&) = delete;
  caf::behavior start(int listening_socket, std::shared_ptr<const session_context> context,
                      std::uint64_t random_seed, gateway_scope scope);

 private:
  // events
  void accept(caf::io::connection_handle handle);
  void pace_accepting();
  void receive(const caf::io::new_data_msg& data);
  void written(const caf::io::data_transferred_msg& report);
  void closed(caf::io::connection_handle handle);
  void take_output(const messages::http_output& output);
  void session_down(const caf::down_msg& down);
  void change_peers(const messages::peers_changed& changed, session_peers fresh);
  void tick();
  void tick_later();
  void look_after(client_connection& client, core::time_point time);
  caf::response_promise drain();
  caf::response_promise shut_down();
  [[nodiscard]] messages::actor_status status(const messages::status_request& question) const;

  void take_health(const messages::health_report& report);
  [[nodiscard]] health_window recent_health() const;

  // requests
  void serve(client_connection& client);
  void answer(client_connection& client, const http::request_message& request);
  void start_session(client_connection& client, const http::request_message& request, route where,
                     std::string tenant);
  void answer_now(client_connection& client, const http::request_message& request, const routed& found);
  void answer_health(client_connection& client, bool keep_alive);
  void refuse(client_connection& client, const http::api_error& error);

  // sockets
  void write(client_connection& client, std::string_view bytes);
  void close(client_connection& client);
  void end_output(client_connection& client);
  void abort(client_connection& client);
  void end_request(client_connection& client);
  void pace_reading(client_connection& client);
  void account(client_connection& client);
  void set_unsent(client_connection& client, std::uint64_t bytes);
  void finish_draining();
  [[nodiscard]] bool draining() const { return !drained_.empty(); }
  client_connection* find(caf::io::connection_handle handle);
  [[nodiscard]] core::time_point now() const { return context_->environment.clock->now(); }

  broker_pointer self_;
  std::shared_ptr<const session_context> context_;
  core::random_source random_{0};
  gateway_scope scope_ = gateway_scope::everything;
  int listening_socket_ = -1;
  caf::io::accept_handle listener_;
  bool accepting_ = true;
  std::unordered_map<std::uint64_t, client_connection> clients_;  ///< by number
  std::unordered_map<std::int64_t, std::uint64_t> numbers_;       ///< of open sockets
  std::unordered_map<caf::actor_id, std::uint64_t> sessions_;     ///< whose request it answers
  std::uint64_t last_number_ = 0;
  std::size_t input_bytes_ = 0;
  std::uint64_t unsent_bytes_ = 0;  ///< all connections'
  session_peers peers_;
  messages::peers_changed peers_message_;
  std::deque<std::pair<core::time_point, messages::health_report>> health_;  ///< the last few reports
  std::uint64_t answered_ = 0;
  std::vector<caf::response_promise>
      drained_;  ///< those that wait for the orderly end; empty while none was asked for
};

caf::behavior gateway_broker(gateway_state::broker_pointer self, int listening_socket,
                             std::shared_ptr<const session_context> context, std::uint64_t random_seed,
                             gateway_scope scope);

}  // namespace yolk::actors
