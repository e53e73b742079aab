#pragma once

#include <cstdint>

namespace yolk::scheduling {

/// Breakwater (OSDI'20): a server lets its clients send as much as it can serve, by credits, so that overload
/// waits with the clients instead of in its queue. The server's side: how many credits there are. A client's
/// demand rides on its requests, its credits on the answers. For LLM serving a credit is a number of prefill
/// tokens, the clients are gateways and the target delay about 0.4 of the slack in TTFT. Not thread-safe.
class credit_pool {
 public:
  struct options {
    double target_delay_seconds = 0.0;
    double additive_increase = 0.001;  ///< credits a client and round trip
    double decrease_slope = 0.02;
    double least_factor = 0.5;  ///< a round trip does not take more than half
    std::uint32_t least = 1;    ///< at least as many credits as the server has cores
    std::uint32_t most_per_client = 64;
  };
  explicit credit_pool(const options& given) : options_(given), credits_(given.least) {}

  /// Once a round trip.
  void update(double queue_delay_seconds, std::uint32_t clients);
  [[nodiscard]] double credits() const { return credits_; }
  /// Requests that wait so long are dropped when they arrive.
  [[nodiscard]] bool drops(double queue_delay_seconds) const {
    return queue_delay_seconds >= 2.0 * options_.target_delay_seconds;
  }

  struct client {
    std::uint32_t window = 0;   ///< credits that it has, unused ones and those of requests under way
    std::uint32_t pending = 0;  ///< of these, requests under way
    std::uint32_t demand = 0;   ///< requests that wait at the client
  };
  /// The client's new window. `issued`: the sum of all windows. Credits given beyond demand (overcommitment)
  /// bet that not all are used.
  struct issue {
    double issued = 0.0;
    std::uint32_t clients = 1;
  };
  [[nodiscard]] std::uint32_t window_for(const client& who, issue all) const;

 private:
  options options_;
  double credits_;
};

}  // namespace yolk::scheduling
