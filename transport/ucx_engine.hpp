#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/submission_queue.hpp"
#include "transport/transfer.hpp"
#include "transport/transfer_engine.hpp"
#include "transport/ucx_link.hpp"
#include "transport/ucx_messages.hpp"
#include "transport/ucx_worker.hpp"

namespace yolk::transport {

/// Requests that UCX holds at once for one peer; a slice above it waits.
inline constexpr std::size_t max_open_operations = 1024;

/// What the engine knows of one region of one peer. Lives in the engine's map until it is forgotten or
/// evicted.
struct peer {
  /// greeting: the endpoint is new and the region's header was asked for; no transfer uses the endpoint
  /// before it came.
  enum class link_state { none, greeting, open };

  region_descriptor region;
  region_keys keys;  ///< points into `region`
  link_state state = link_state::none;
  std::unique_ptr<ucx_link> link;
  core::time_point greeting_deadline;
  std::deque<transfer*> waiting;
  std::vector<transfer*> active;  ///< issuing and confirming
  std::deque<transfer*> issuing;  ///< those of the active that have slices left
  std::uint64_t in_flight_bytes = 0;
  std::uint64_t last_used = 0;  ///< the engine's count of submissions
  bool runnable = false;

  [[nodiscard]] bool idle() const { return waiting.empty() && active.empty(); }
};

/// The transfer_engine over UCX. Everything but the queue and the counters belongs to its thread.
class ucx_engine final : public transfer_engine {
 public:
  ucx_engine(const engine_options& options, std::unique_ptr<ucx_worker> worker);
  /// After construction, once: serves peers and starts the thread.
  std::optional<core::failure<errc>> start_thread();
  ~ucx_engine() override;

  [[nodiscard]] std::span<std::byte> region() override { return worker_->region(); }
  [[nodiscard]] const region_descriptor& descriptor() const override { return worker_->descriptor(); }
  void put(const region_descriptor& to, std::vector<copy_range> ranges, core::duration deadline,
           completion done) override;
  void get(const region_descriptor& from, std::vector<copy_range> ranges, core::duration deadline,
           completion done) override;
  void forget(const region_descriptor& peer) override;
  [[nodiscard]] engine_counters counters() const override;

 private:
  struct closing_link {
    std::unique_ptr<ucx_link> link;
    std::vector<transfer*> victims;
    core::time_point give_up;
  };
  using failure = core::failure<errc>;

  void submit(submission asked);
  void run();
  void shut_down();
  [[nodiscard]] std::optional<core::time_point> next_deadline() const;

  void accept_all();
  void accept(submission asked);
  result<peer*> find_peer(const region_descriptor& region);
  bool make_room_for_peer();
  void refuse(submission& asked, failure why);
  void forget_now(const region_descriptor& region);

  void settle();
  void settle_closing(ucx_link& link, const std::list<operation>& finished);
  void settle_open(peer& of, const std::list<operation>& finished);
  void greeted(peer& by);
  void reap_closed(core::time_point now);

  void expire(core::time_point now);
  void expire_transfer(transfer& late);

  bool issue_round();
  bool issue(peer& to);
  void admit(peer& to) const;
  std::optional<failure> issue_slices(peer& to);
  std::optional<failure> confirm(transfer& all_issued);
  void connect(peer& to);
  void make_runnable(peer& which);

  void break_link(peer& of, const failure& why);
  void fail_all(peer& of, const failure& why);
  void finish(transfer& which, result<transfer_report> outcome);
  void finish_done(transfer& which);
  void finish_failed(transfer& which, failure why);

  const engine_options options_;
  submission_queue queue_;
  std::atomic<std::uint64_t> transfers_count_{0};
  std::atomic<std::uint64_t> failures_count_{0};
  std::atomic<std::uint64_t> put_bytes_{0};
  std::atomic<std::uint64_t> get_bytes_{0};

  ucx_messages messages_;
  std::vector<ucx_link*> ripe_;
  std::list<closing_link> closing_;
  std::map<std::string, std::unique_ptr<peer>> peers_;
  std::unique_ptr<ucx_worker> worker_;  // destroyed before the links, which its callbacks may still report to
  std::list<transfer> transfers_;
  std::multimap<core::time_point, transfer*> deadlines_;
  std::vector<peer*> runnable_;
  std::vector<peer*> greeting_;
  std::uint64_t submissions_ = 0;
  std::thread thread_;
};

}  // namespace yolk::transport
