#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/random.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::transport {

/// What befalls a transfer. drop: it never reaches the peer and ends by its deadline. fail: it ends at once
/// as unreachable. delay: it starts later (its deadline counts on). corrupt: it is done, and one bit of what
/// arrived is wrong.
enum class fault { none, delay, drop, fail, corrupt };

/// Shares of transfers per thousand, drawn in the order of the calls from `seed`: the same calls meet the
/// same faults.
struct fault_plan {
  std::uint64_t seed = 1;
  std::uint32_t delay_per_mille = 0;
  std::uint32_t drop_per_mille = 0;
  std::uint32_t fail_per_mille = 0;
  std::uint32_t corrupt_per_mille = 0;
  core::duration max_delay = std::chrono::milliseconds(20);
};

struct fault_counters {
  std::uint64_t delayed = 0;
  std::uint64_t dropped = 0;
  std::uint64_t failed = 0;
  std::uint64_t corrupted = 0;
};

/// A transfer_engine that spoils another's transfers by plan, for tests of those who use one. It owns the
/// engine, and keeps the last `scratch_bytes` of its region for itself (the wrong byte of a corrupted put is
/// sent from there). Completions run on the inner engine's thread or on its own. Every transfer still
/// completes exactly once.
class faulty_engine final : public transfer_engine {
 public:
  static constexpr std::size_t scratch_bytes = 64;

  /// The inner engine's region must be larger than scratch_bytes.
  faulty_engine(std::unique_ptr<transfer_engine> inner, const fault_plan& plan);
  ~faulty_engine() override;

  [[nodiscard]] std::span<std::byte> region() override;
  [[nodiscard]] const region_descriptor& descriptor() const override { return inner_->descriptor(); }
  void put(const region_descriptor& to, std::vector<copy_range> ranges, core::duration deadline,
           completion done) override;
  void get(const region_descriptor& from, std::vector<copy_range> ranges, core::duration deadline,
           completion done) override;
  void forget(const region_descriptor& peer) override { inner_->forget(peer); }
  [[nodiscard]] engine_counters counters() const override { return inner_->counters(); }

  /// From now on transfers meet these faults.
  void set_plan(const fault_plan& plan);
  [[nodiscard]] fault_counters faults() const;

 private:
  struct call {
    bool is_put = false;
    region_descriptor peer;
    std::vector<copy_range> ranges;
    core::time_point deadline;
    completion done;
  };
  struct later {
    fault why = fault::none;
    call what;
  };
  /// The bit that corruption flips: of byte `at` of the transfer.
  struct blemish {
    std::uint64_t at = 0;
    unsigned bit = 0;
  };

  void submit(call asked);
  fault draw(core::duration& delay, blemish& where);
  void pass_on(call asked, const std::optional<blemish>& spoil);
  void spoil_put(const call& asked, const blemish& where, result<transfer_report> outcome);
  void run();

  std::unique_ptr<transfer_engine> owned_;
  transfer_engine* const inner_;  // what owned_ holds, also while it ends
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  fault_plan plan_;
  core::random_source random_;
  fault_counters counters_;
  std::multimap<core::time_point, later> schedule_;
  std::uint64_t free_scratch_ = ~std::uint64_t{0};  // a bit for each byte
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace yolk::transport
