// What put and get reach, as a ratio to a plain memcpy of the same ranges in the same run.
//   transfer_bench [--milliseconds=N]   (how long each case runs, 1000 by default)
// The engines live in one process, each with its thread, as one node's workers do. The memcpy runs on this
// thread over the same two regions' sizes, so that both meet the same caches.
#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "transport/process.hpp"
#include "transport/transfer_engine.hpp"

namespace {

using namespace yolk;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t region_bytes = std::size_t{128} << 20;

struct bench_case {
  const char* name;
  std::uint64_t range_bytes;
  std::uint64_t range_count;
};

// The first is one layer's run of a block of each of 64 blocks: 16 KiB here, 256 KiB there.
constexpr bench_case cases[] = {
    {"64 x 16 KiB scattered", 16 << 10, 64}, {"1 MiB", 1 << 20, 1}, {"16 MiB", 16 << 20, 1}};

/// The next transfer's ranges; successive calls walk through the region, so that the source is not always in
/// cache.
std::vector<transport::copy_range> ranges_of(const bench_case& which, std::uint64_t round) {
  const std::uint64_t stride = which.range_count == 1 ? which.range_bytes : 16 * which.range_bytes;
  const std::uint64_t span = stride * which.range_count;
  const std::uint64_t start = round * span % (region_bytes - span + 1);
  std::vector<transport::copy_range> ranges;
  for (std::uint64_t i = 0; i < which.range_count; ++i) {
    ranges.push_back({start + i * stride, start + i * stride, which.range_bytes});
  }
  return ranges;
}

/// Seconds that one transfer took, of many rounds.
class samples {
 public:
  template <class Run>
  void time(Run&& run) {
    const auto start = clock_type::now();
    run();
    seconds_.push_back(std::chrono::duration<double>(clock_type::now() - start).count());
  }
  /// The time that `share` of the rounds did not exceed.
  [[nodiscard]] double quantile(double share) {
    std::sort(seconds_.begin(), seconds_.end());
    return seconds_[static_cast<std::size_t>(share * static_cast<double>(seconds_.size() - 1))];
  }

 private:
  std::vector<double> seconds_;
};

/// Waits for one completion; exits on a failure, since its time would mean nothing.
class waiter {
 public:
  transport::transfer_engine::completion completion() {
    return [this](transport::result<transport::transfer_report> outcome) {
      if (!outcome) {
        std::fprintf(stderr, "transfer failed: %s\n", outcome.error().message.c_str());
        std::exit(1);
      }
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_one();
    };
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    done_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

std::unique_ptr<transport::transfer_engine> start(std::uint64_t incarnation, const std::string& transports) {
  transport::engine_options options;
  options.region_bytes = region_bytes;
  options.owner.value = incarnation;
  options.transports = transports;
  auto started = transport::transfer_engine::start(options);
  if (!started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    std::exit(1);
  }
  // Every page is there before anything is measured.
  std::memset((*started)->region().data(), static_cast<int>(incarnation), region_bytes);
  return std::move(*started);
}

void run_route(const char* name, const std::string& transports, std::chrono::milliseconds how_long) {
  const auto a = start(1, transports);
  const auto b = start(2, transports);
  waiter done;
  for (const bench_case& which : cases) {
    samples copied, put, got;
    const auto end = clock_type::now() + how_long;
    // In turns, so that what else the machine does meets all three; each on ranges of its own, so that none
    // finds the bytes in the cache because the one before it moved them.
    for (std::uint64_t round = 0; round < 3 || clock_type::now() < end; ++round) {
      const auto copy_ranges = ranges_of(which, 3 * round);
      const auto put_ranges = ranges_of(which, 3 * round + 1);
      const auto get_ranges = ranges_of(which, 3 * round + 2);
      copied.time([&] {
        for (const auto& range : copy_ranges) {
          std::memcpy(b->region().data() + range.remote_offset, a->region().data() + range.local_offset,
                      range.bytes);
        }
      });
      put.time([&] {
        a->put(b->descriptor(), put_ranges, std::chrono::seconds(60), done.completion());
        done.wait();
      });
      got.time([&] {
        a->get(b->descriptor(), get_ranges, std::chrono::seconds(60), done.completion());
        done.wait();
      });
    }
    const auto bytes = static_cast<double>(which.range_bytes * which.range_count);
    // The median has the other processes in it; the best tenth shows what the code itself costs.
    for (const double share : {0.5, 0.1}) {
      const double copy = copied.quantile(share), putting = put.quantile(share),
                   getting = got.quantile(share);
      std::printf(
          "%-13s %-22s %-10s memcpy %6.2f GB/s | put %6.2f GB/s (%4.2f of it) %8.1f us | "
          "get %6.2f GB/s (%4.2f of it) %8.1f us\n",
          name, which.name, share == 0.5 ? "median" : "best tenth", bytes / copy / 1e9, bytes / putting / 1e9,
          copy / putting, putting * 1e6, bytes / getting / 1e9, copy / getting, getting * 1e6);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  transport::prepare_process();
  std::chrono::milliseconds how_long(1000);
  for (int i = 1; i < argc; ++i) {
    constexpr std::string_view option = "--milliseconds=";
    const std::string_view argument(argv[i]);
    int value = 0;
    if (!argument.starts_with(option) ||
        std::from_chars(argument.data() + option.size(), argument.data() + argument.size(), value).ec !=
            std::errc{} ||
        value <= 0) {
      std::fprintf(stderr, "usage: transfer_bench [--milliseconds=N]\n");
      return 2;
    }
    how_long = std::chrono::milliseconds(value);
  }
  run_route("shared memory", transport::engine_options{}.transports, how_long);
  run_route("tcp", "tcp", how_long);
  return 0;
}
