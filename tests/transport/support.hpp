#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::transport::testing {

using namespace std::chrono_literals;

/// A deadline that no test reaches unless it hangs.
inline constexpr core::duration never_late = 60s;

/// Collects completions; waits for them without a sleep. Counts each, so that a second completion shows.
class completions {
 public:
  /// A completion for transfer number `index`.
  transfer_engine::completion on(std::size_t index) {
    return [this, index](result<transfer_report> outcome) { record(index, std::move(outcome)); };
  }
  void record(std::size_t index, result<transfer_report> outcome) {
    const std::lock_guard lock(mutex_);
    if (outcomes_.size() <= index) outcomes_.resize(index + 1);
    outcomes_[index].push_back(std::move(outcome));
    ++count_;
    changed_.notify_all();
  }
  /// Until `count` completions came in all. False: not within the time in which a test would be hung.
  [[nodiscard]] bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 100s, [&] { return count_ >= count; });
  }
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  /// How often transfer `index` completed.
  [[nodiscard]] std::size_t times(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return index < outcomes_.size() ? outcomes_[index].size() : 0;
  }
  [[nodiscard]] result<transfer_report> outcome(std::size_t index) const {
    const std::lock_guard lock(mutex_);
    return outcomes_.at(index).at(0);
  }
  [[nodiscard]] bool ok(std::size_t index) const { return outcome(index).has_value(); }
  /// The error of a transfer, or nothing if it was done.
  [[nodiscard]] std::optional<errc> error(std::size_t index) const {
    const auto ended = outcome(index);
    if (ended) return std::nullopt;
    return ended.error().code;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<result<transfer_report>>> outcomes_;
  std::size_t count_ = 0;
};

inline std::unique_ptr<transfer_engine> start_engine(const engine_options& options) {
  auto started = transfer_engine::start(options);
  REQUIRE_MESSAGE(started.has_value(), (started ? std::string() : started.error().message));
  return std::move(*started);
}

/// A way for the bytes to go.
struct route {
  std::string transports = engine_options{}.transports;
  access_path access = access_path::automatic;
};
inline const route shared_memory{};
inline const route tcp{"tcp"};
/// native over TCP is left out: that is UCX's emulation, which is not to be used (access_path says why).
inline const route all_routes[] = {shared_memory,
                                   tcp,
                                   {engine_options{}.transports, access_path::native},
                                   {engine_options{}.transports, access_path::messages}};
inline std::string name_of(const route& each) {
  return each.transports + "/" + std::to_string(static_cast<int>(each.access));
}

inline std::unique_ptr<transfer_engine> start_engine(std::size_t region_bytes, std::uint64_t incarnation,
                                                     const route& by = shared_memory) {
  engine_options options;
  options.region_bytes = region_bytes;
  options.owner.value = incarnation;
  options.transports = by.transports;
  options.access = by.access;
  return start_engine(options);
}

/// One transfer, waited for.
inline result<transfer_report> run_put(transfer_engine& from, const region_descriptor& to,
                                       std::vector<copy_range> ranges, core::duration deadline = never_late) {
  completions done;
  from.put(to, std::move(ranges), deadline, done.on(0));
  REQUIRE(done.wait_for(1));
  return done.outcome(0);
}

inline result<transfer_report> run_get(transfer_engine& to, const region_descriptor& from,
                                       std::vector<copy_range> ranges, core::duration deadline = never_late) {
  completions done;
  to.get(from, std::move(ranges), deadline, done.on(0));
  REQUIRE(done.wait_for(1));
  return done.outcome(0);
}

inline std::string message_of(const result<transfer_report>& outcome) {
  return outcome ? "done" : outcome.error().message;
}

inline void fill_random(std::span<std::byte> bytes, std::uint64_t seed) {
  core::random_source random(seed);
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t value = random();
    std::memcpy(bytes.data() + at, &value, std::min(sizeof value, bytes.size() - at));
  }
}

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace yolk::transport::testing
