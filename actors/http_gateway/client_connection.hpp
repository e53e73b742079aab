#pragma once

#include <caf/actor.hpp>
#include <caf/io/connection_handle.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "core/clock.hpp"
#include "http/message_parser.hpp"

namespace yolk::actors {

/// One client's socket, as the broker sees it: requests that wait for their turn, and the one that is being
/// answered. One at a time, so that answers come in the order of the requests. Owned by the broker; its
/// thread.
struct client_connection {
  client_connection(caf::io::connection_handle socket, std::uint64_t its_number, http::parser_limits limits,
                    core::time_point now)
      : handle(socket), number(its_number), parser(limits), last_activity(now), last_written(now) {}

  caf::io::connection_handle handle;  ///< its id is the socket, and is used again after the connection's end
  std::uint64_t number;               ///< never used again
  http::request_parser parser;

  // What came in.
  std::deque<http::request_message> pending;
  std::size_t pending_bytes = 0;
  std::size_t accounted_bytes = 0;  ///< this connection's part of the gateway's input
  bool paused = false;              ///< nothing is read: its queue is full
  bool resumed = false;             ///< reading was asked for and is to be asked for once more
  bool wants_continue = false;      ///< a client waits for "100 Continue"
  std::optional<core::time_point> request_began;
  core::time_point last_activity;
  bool served = false;  ///< has asked for something

  // The request that is being answered.
  bool busy = false;
  bool head_only = false;  ///< HEAD: the answer has no body
  bool began = false;      ///< bytes of the answer were sent
  bool wants_peers = false;
  std::size_t body_bytes = 0;
  caf::actor session;

  // What goes out.
  std::uint64_t unsent_bytes = 0;
  core::time_point last_written;
  bool closing = false;  ///< nothing more is read or answered; what was written still goes out
  std::optional<core::time_point> finished_writing;

  void take_from_parser(std::size_t max_requests, std::size_t max_bytes) {
    while (pending.size() < max_requests && pending_bytes < max_bytes) {
      auto request = parser.next();
      if (!request) return;
      pending_bytes += request->body.size();
      pending.push_back(std::move(*request));
    }
  }
  http::request_message next_request() {
    http::request_message request = std::move(pending.front());
    pending.pop_front();
    pending_bytes -= request.body.size();
    return request;
  }
  [[nodiscard]] std::size_t input_bytes() const {
    return parser.buffered_bytes() + pending_bytes + body_bytes;
  }
};

}  // namespace yolk::actors
