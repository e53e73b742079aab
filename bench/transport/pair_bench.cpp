// What put and get reach between two processes, several at a time:
//   pair_bench TRANSPORTS put|get RANGE_BYTES RANGES MILLISECONDS
// TRANSPORTS as UCX_TLS has them. Prints bytes a second, and microseconds a transfer. perftest_ratio.py
// compares it with ucx_perftest.
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/transport/descriptor_text.hpp"
#include "transport/process.hpp"
#include "transport/transfer_engine.hpp"

namespace {

using namespace yolk;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t region_bytes = std::size_t{128} << 20;
constexpr unsigned outstanding = 4;  // a worker has several legs' KV on the way

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "pair_bench: %s\n", why.c_str());
  std::_Exit(1);
}

std::unique_ptr<transport::transfer_engine> start(std::uint64_t incarnation, const std::string& transports) {
  auto started = transport::transfer_engine::start({.region_bytes = region_bytes,
                                                    .owner = {incarnation},
                                                    .transports = transports,
                                                    .network_devices = "lo"});
  if (!started) fail(started.error().message);
  std::memset((*started)->region().data(), static_cast<int>(incarnation),
              region_bytes);  // every page is there
  return std::move(*started);
}

/// The other process: says where its region is, and lives until its input ends.
void be_peer(int input, int output, const std::string& transports) {
  const auto engine = start(2, transports);
  const auto line = transport::testing::to_text(engine->descriptor()) + "\n";
  if (::write(output, line.data(), line.size()) != static_cast<ssize_t>(line.size())) fail("no one listens");
  char ignored;
  while (::read(input, &ignored, 1) > 0) {
  }
}

class transfers {
 public:
  transfers(transport::transfer_engine& engine, transport::region_descriptor peer, bool is_put,
            std::uint64_t range_bytes, std::uint64_t range_count)
      : engine_(engine),
        peer_(std::move(peer)),
        is_put_(is_put),
        range_bytes_(range_bytes),
        range_count_(range_count) {}

  /// Bytes a second, kept up for so long.
  double run(std::chrono::milliseconds how_long) {
    const auto begin = clock_type::now();
    std::uint64_t count = 0;
    for (; clock_type::now() - begin < how_long; ++count) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return open_ < outstanding; });
      ++open_;
      lock.unlock();
      begin_one();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });
    const double seconds = std::chrono::duration<double>(clock_type::now() - begin).count();
    return static_cast<double>(count * range_bytes_ * range_count_) / seconds;
  }

 private:
  void begin_one() {
    // The same bytes each time, as ucx_perftest has it: in the caches. Scattered as the blocks of a pool are:
    // two neighbours are not sent as one.
    const std::uint64_t stride = range_count_ == 1 ? range_bytes_ : 2 * range_bytes_;
    std::vector<transport::copy_range> ranges;
    for (std::uint64_t i = 0; i < range_count_; ++i) ranges.push_back({i * stride, i * stride, range_bytes_});
    auto done = [this](transport::result<transport::transfer_report> outcome) {
      if (!outcome) fail(outcome.error().message);
      const std::lock_guard lock(mutex_);
      --open_;
      changed_.notify_one();
    };
    if (is_put_)
      engine_.put(peer_, std::move(ranges), std::chrono::seconds(60), std::move(done));
    else
      engine_.get(peer_, std::move(ranges), std::chrono::seconds(60), std::move(done));
  }

  transport::transfer_engine& engine_;
  transport::region_descriptor peer_;
  bool is_put_;
  std::uint64_t range_bytes_, range_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned open_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) fail("usage: pair_bench TRANSPORTS put|get RANGE_BYTES RANGES MILLISECONDS");
  const std::string transports = argv[1];
  const bool is_put = std::string(argv[2]) == "put";
  const std::uint64_t range_bytes = std::strtoull(argv[3], nullptr, 10);
  const std::uint64_t range_count = std::strtoull(argv[4], nullptr, 10);
  const std::chrono::milliseconds how_long(std::strtoul(argv[5], nullptr, 10));
  if (range_bytes == 0 || range_count == 0 || 2 * range_bytes * range_count > region_bytes)
    fail("RANGE_BYTES x RANGES: at least 1, at most half of " + std::to_string(region_bytes));
  int to_peer[2], from_peer[2];
  if (::pipe(to_peer) != 0 || ::pipe(from_peer) != 0) fail("no pipe");
  const pid_t peer = ::fork();  // before there is any thread
  transport::prepare_process();
  if (peer == 0) {
    ::close(to_peer[1]);
    ::close(from_peer[0]);
    be_peer(to_peer[0], from_peer[1], transports);
    return 0;
  }
  ::close(from_peer[1]);
  std::string line;
  for (char next; ::read(from_peer[0], &next, 1) == 1 && next != '\n';) line += next;
  if (line.empty()) fail("the peer did not start");
  {
    const auto engine = start(1, transports);
    transfers all(*engine, transport::testing::from_text(line), is_put, range_bytes, range_count);
    all.run(how_long / 4);  // connections, mappings
    const double rate = all.run(how_long);
    std::printf("%.0f %.2f\n", rate, static_cast<double>(range_bytes * range_count) / rate * 1e6);
  }
  ::close(to_peer[1]);
  int status = 0;
  ::waitpid(peer, &status, 0);
  return status == 0 ? 0 : 1;
}
