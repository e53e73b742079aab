#include "scheduling/credit_admission.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <vector>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::scheduling;

namespace {

/// A thousand clients and a server of ten cores whose requests take 10 us on average, one way 5 us.
class cluster {
 public:
  static constexpr std::uint32_t client_count = 1000;
  static constexpr double one_way = 5e-6;
  static constexpr double mean_service = 10e-6;
  static constexpr double slo = 200e-6;

  explicit cluster(std::uint64_t seed) : random_(seed), clients_(client_count) {
    for (std::size_t core = 0; core < 10; ++core) free_at_.push(0.0);
  }

  /// Runs on for so long at a rate (requests a second); how many of those that arrived ended within the SLO,
  /// a second.
  double run(double seconds, double rate) {
    const double end = now_ + seconds;
    within_ = 0;
    events_.push({now_ - std::log(random_.open_unit()) / rate, kind::arrival, 0});
    while (!events_.empty() && events_.top().at < end) {
      const event next = events_.top();
      events_.pop();
      now_ = next.at;
      switch (next.what) {
        case kind::arrival:
          if (rate > 0) events_.push({now_ - std::log(random_.open_unit()) / rate, kind::arrival, 0});
          arrive(static_cast<std::uint32_t>(random_.below(client_count)));
          break;
        case kind::at_server:
          serve(next.client);
          break;
        case kind::answer:
          answered(next.client);
          break;
        case kind::dropped:
          answered(next.client, true);
          break;
      }
      round_trip();
    }
    // The arrival process of this rate ends here.
    std::vector<event> kept;
    for (; !events_.empty(); events_.pop())
      if (events_.top().what != kind::arrival) kept.push_back(events_.top());
    for (const event& e : kept) events_.push(e);
    now_ = end;
    return within_ / seconds;
  }

 private:
  enum class kind : std::uint8_t { arrival, at_server, answer, dropped };
  struct event {
    double at = 0.0;
    kind what = kind::arrival;
    std::uint32_t client = 0;
    friend bool operator>(const event& a, const event& b) { return a.at > b.at; }
  };
  struct client_state {
    credit_pool::client credits;
    std::queue<double> waiting;  // arrival times
    std::queue<double> sent;     // those under way
  };

  void arrive(std::uint32_t id) {
    auto& client = clients_[id];
    client.waiting.push(now_);
    // Demand is told with a request; a client without any credit registers for one.
    if (client.credits.window == 0) grant(id);
    send(id);
  }

  void send(std::uint32_t id) {
    auto& client = clients_[id];
    // A client drops what has waited with it for longer than the SLO leaves.
    while (!client.waiting.empty() && now_ - client.waiting.front() > slo / 2) client.waiting.pop();
    while (!client.waiting.empty() && client.credits.pending < client.credits.window) {
      client.sent.push(client.waiting.front());
      client.waiting.pop();
      ++client.credits.pending;
      events_.push({now_ + one_way, kind::at_server, id});
    }
    client.credits.demand = static_cast<std::uint32_t>(client.waiting.size());
  }

  void serve(std::uint32_t id) {
    const double start = std::max(now_, free_at_.top());
    delay_ = start - now_;
    if (pool_.drops(delay_)) {
      events_.push({now_ + one_way, kind::dropped, id});
      return;
    }
    free_at_.pop();
    const double end = start - std::log(random_.open_unit()) * mean_service;
    free_at_.push(end);
    events_.push({end + one_way, kind::answer, id});
  }

  void answered(std::uint32_t id, bool was_dropped = false) {
    auto& client = clients_[id];
    const double arrived = client.sent.front();
    client.sent.pop();
    within_ += !was_dropped && now_ - arrived <= slo ? 1 : 0;
    --client.credits.pending;
    grant(id);
    send(id);
  }

  void grant(std::uint32_t id) {
    auto& client = clients_[id].credits;
    const auto window = pool_.window_for(client, {.issued = issued_, .clients = client_count});
    issued_ += static_cast<double>(window) - client.window;
    client.window = window;
  }

  void round_trip() {
    while (now_ >= next_update_) {
      const double wait = std::max(0.0, free_at_.top() - now_);
      pool_.update(wait, client_count);
      next_update_ += 2 * one_way;
    }
  }

  core::random_source random_;
  std::vector<client_state> clients_;
  credit_pool pool_{{.target_delay_seconds = 80e-6, .least = 10}};
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at_;
  double now_ = 0.0;
  double next_update_ = 0.0;
  double delay_ = 0.0;
  double issued_ = 0.0;
  double within_ = 0.0;
};

}  // namespace

TEST_CASE("goodput at 1.4 times the capacity is at least 95 % of its peak") {
  // Breakwater (OSDI'20): 1,000 clients, 10 cores, exponential service of 10 us: a million a second.
  const std::uint64_t seed = 51;
  MESSAGE("seed ", seed);
  double peak = 0.0;
  double overloaded = 0.0;
  for (const double rate : {0.1e6, 0.4e6, 0.7e6, 0.9e6, 1.0e6, 1.2e6, 1.4e6, 1.6e6}) {
    cluster server(seed);
    server.run(0.02, rate);
    const double goodput = server.run(0.05, rate);
    MESSAGE((rate / 1e6), " M/s: ", (goodput / 1e6), " M/s within the SLO");
    peak = std::max(peak, goodput);
    if (rate == 1.4e6) overloaded = goodput;
    if (rate < 0.8e6) CHECK(goodput >= 0.97 * rate);
  }
  CHECK(peak >= 0.85e6);
  CHECK(overloaded >= 0.95 * peak);
}

TEST_CASE("a spike from half to 1.4 times the capacity is absorbed within 20 ms") {
  const std::uint64_t seed = 52;
  MESSAGE("seed ", seed);
  cluster server(seed);
  server.run(0.05, 0.5e6);
  server.run(0.02, 1.4e6);
  const double recovered = server.run(0.02, 1.4e6);
  const double settled = server.run(0.05, 1.4e6);
  MESSAGE("20 to 40 ms after the spike ", (recovered / 1e6), " M/s, later ", (settled / 1e6));
  CHECK(recovered >= 0.95 * settled);
}

TEST_CASE("credits shrink with the delay beyond the target, by half at most, and grow with the clients") {
  credit_pool pool({.target_delay_seconds = 1.0, .additive_increase = 0.5, .least = 4});
  CHECK(pool.credits() == 4);
  pool.update(0.5, 100);
  CHECK(pool.credits() == 54);
  pool.update(2.0, 100);
  CHECK(pool.credits() == doctest::Approx(54 * 0.98));
  const double before = pool.credits();
  pool.update(1e9, 100);
  CHECK(pool.credits() == doctest::Approx(before / 2));
  for (int i = 0; i < 100; ++i) pool.update(1e9, 100);
  CHECK(pool.credits() == 4);
  for (int i = 0; i < 1000; ++i) pool.update(0.0, 100);
  CHECK(pool.credits() == 6400);
  CHECK(pool.drops(2.0));
  CHECK_FALSE(pool.drops(1.9));
}

TEST_CASE("a client's window follows its demand, and never falls below what is under way") {
  credit_pool pool({.target_delay_seconds = 1.0, .additive_increase = 1.0, .least = 1});
  for (int i = 0; i < 99; ++i) pool.update(0.0, 1);
  REQUIRE(pool.credits() == 64);  // 64 a client
  CHECK(pool.window_for({.window = 2, .pending = 2, .demand = 3}, {.issued = 2, .clients = 100}) == 6);
  CHECK(pool.window_for({.window = 2, .pending = 2, .demand = 300}, {.issued = 2, .clients = 100}) == 63);
  CHECK(pool.window_for({.window = 2, .pending = 2, .demand = 300}, {.issued = 61, .clients = 100}) == 5);
  CHECK(pool.window_for({.window = 5, .pending = 2}, {.issued = 100, .clients = 100}) == 4);
  CHECK(pool.window_for({.window = 5, .pending = 5}, {.issued = 100, .clients = 100}) == 5);
}
