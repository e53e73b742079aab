// What the SSD log reaches, as a ratio to plain reads and writes of the same bytes in the same run.
//   ssd_log_bench [--folder=DIR] [--megabytes=N] [--layers=N] [--rounds=N]
// A block is of `layers` layers of 64 KiB. "cold" reads come from the device (the page cache was emptied of
// the file before), "warm" ones from the page cache. Log and plain file are measured in turns; each figure is
// the median of the rounds, each ratio the median of the rounds' ratios.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/random.hpp"
#include "kvcache/ssd_log.hpp"

namespace {

using namespace yolk;
using namespace yolk::kvcache;
using clock_type = std::chrono::steady_clock;

struct bench_options {
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  std::uint64_t megabytes = 256;
  std::uint32_t layers = 32;
  std::uint32_t rounds = 5;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "ssd_log_bench: %s\n", what.c_str());
  std::exit(1);
}

double seconds_since(clock_type::time_point start) {
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

/// Chains of 64 blocks, all with the same bytes.
struct workload {
  explicit workload(const bench_options& options)
      : layout{.layer_count = options.layers, .kv_head_count = 8, .head_dim = 128, .block_tokens = 16},
        payload(layout.block_bytes()) {
    core::random_source random(1);
    for (auto& byte : payload) byte = static_cast<std::byte>(random());
    const auto sums = layer_checksums(payload, layout);
    const std::size_t count = std::max<std::uint64_t>(1, (options.megabytes << 20) / layout.block_bytes());
    block_key parent;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_first = i % 64 == 0;
      if (is_first) parent = make_root({.salt = std::to_string(i / 64)});
      block_header header{.parent = parent,
                          .tokens = std::vector<core::token_id>(16, static_cast<core::token_id>(i)),
                          .first_position = static_cast<std::uint32_t>(i % 64 * 16),
                          .layer_checksums = sums};
      header.key = chain(parent, header.tokens);
      parent = header.key;
      headers.push_back(std::move(header));
    }
  }
  [[nodiscard]] double gigabytes() const {
    return static_cast<double>(headers.size() * layout.block_bytes()) / 1e9;
  }
  segment_layout layout;
  std::vector<std::byte> payload;
  std::vector<block_header> headers;
};

void forget_cached(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("cannot open " + path.string());
  fdatasync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

/// The same bytes in a plain file.
class plain_file {
 public:
  plain_file(const workload& work, std::filesystem::path path) : work_(work), path_(std::move(path)) {}
  ~plain_file() { std::filesystem::remove(path_); }
  plain_file(const plain_file&) = delete;
  plain_file& operator=(const plain_file&) = delete;

  double write() {
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail("cannot create " + path_.string());
    const auto start = clock_type::now();
    const auto bytes = work_.payload.size();
    for (std::size_t i = 0; i < work_.headers.size(); ++i)
      if (pwrite(file, work_.payload.data(), bytes, static_cast<off_t>(i * bytes)) !=
          static_cast<ssize_t>(bytes))
        fail("short write");
    const double elapsed = seconds_since(start);
    close(file);
    return work_.gigabytes() / elapsed;
  }

  double read(unsigned thread_count) {
    const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    std::atomic<std::size_t> next{0};
    const auto start = clock_type::now();
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < thread_count; ++i)
      threads.emplace_back([&] {
        std::vector<std::byte> into(work_.payload.size());
        for (std::size_t block = next++; block < work_.headers.size(); block = next++)
          for (std::size_t done = 0; done < into.size();) {
            const auto moved = pread(file, into.data() + done, into.size() - done,
                                     static_cast<off_t>(block * into.size() + done));
            if (moved <= 0) fail("short read");
            done += static_cast<std::size_t>(moved);
          }
      });
    for (auto& thread : threads) thread.join();
    const double elapsed = seconds_since(start);
    close(file);
    return work_.gigabytes() / elapsed;
  }
  void forget() const { forget_cached(path_); }

 private:
  const workload& work_;
  std::filesystem::path path_;
};

/// The log with its owner, which is this thread.
class log_under_test {
 public:
  log_under_test(const workload& work, std::filesystem::path folder, std::unique_ptr<io_backend> backend)
      : work_(work),
        folder_(std::move(folder)),
        into_(in_flight, std::vector<std::byte>(work.payload.size())) {
    auto opened = ssd_log::open({.folder = folder_,
                                 .byte_limit = std::uint64_t{64} << 30,
                                 .layout = work.layout,
                                 .max_saving_bytes = std::uint64_t{1} << 40},
                                std::move(backend));
    if (!opened) fail(opened.error().message);
    log_ = std::move(opened).value();
    log_->attach([this](std::function<void()> function) {
      {
        const std::lock_guard lock(mutex_);
        told_.push_back(std::move(function));
      }
      wake_.notify_one();
    });
  }
  ~log_under_test() {
    log_.reset();
    std::filesystem::remove_all(folder_);
  }
  log_under_test(const log_under_test&) = delete;
  log_under_test& operator=(const log_under_test&) = delete;

  void begin_saves(const std::vector<block_header>& headers) {
    for (const auto& header : headers) {
      while (log_->saving_room() == 0) run_one();
      ++saving_;
      if (log_->save(header, work_.payload, [this](bool saved) {
            if (!saved) fail("a save failed");
            --saving_;
          }) != ssd_log::save_outcome::started)
        fail("a save was refused");
    }
  }
  [[nodiscard]] std::size_t saving() const { return saving_; }
  void finish_saves() {
    while (saving_ > 0) run_one();
  }
  double save() {
    const auto start = clock_type::now();
    begin_saves(work_.headers);
    finish_saves();
    return work_.gigabytes() / seconds_since(start);
  }
  /// All blocks, many at a time; verified.
  double read() {
    const auto start = clock_type::now();
    std::size_t begun = 0;
    std::size_t ended = 0;
    while (ended < work_.headers.size()) {
      for (; begun < work_.headers.size() && begun - ended < in_flight; ++begun)
        begin_read(begun, [&] { ++ended; });
      run_one();
    }
    return work_.gigabytes() / seconds_since(start);
  }
  /// Seconds of reads of single blocks, one after the other.
  std::vector<double> read_singly(std::size_t count) {
    std::vector<double> seconds;
    core::random_source random(2);
    for (std::size_t i = 0; i < count; ++i) {
      const auto start = clock_type::now();
      bool ended = false;
      begin_read(random.below(work_.headers.size()), [&] { ended = true; });
      while (!ended) run_one();
      seconds.push_back(seconds_since(start));
    }
    return seconds;
  }
  void forget() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) forget_cached(entry.path());
  }
  [[nodiscard]] std::string backend_name() const { return log_->backend_name(); }

 private:
  static constexpr std::size_t in_flight = 16;

  void begin_read(std::size_t block, std::function<void()> then) {
    if (!log_->read(work_.headers[block].key, into_[block % in_flight],
                    [then = std::move(then)](const std::optional<block_header>& header) {
                      if (!header) fail("a read failed");
                      then();
                    }))
      fail("a read was refused");
  }
  void run_one() {
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !told_.empty(); });
      next = std::move(told_.front());
      told_.pop_front();
    }
    next();
  }

  const workload& work_;
  std::filesystem::path folder_;
  std::vector<std::vector<std::byte>> into_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> told_;
  std::size_t saving_ = 0;
  std::unique_ptr<ssd_log> log_;
};

struct figures {
  std::vector<double> log, plain, ratio;
  void add(double of_log, double of_plain) {
    log.push_back(of_log);
    plain.push_back(of_plain);
    ratio.push_back(of_log / of_plain);
  }
  void print(const char* what) const {
    std::printf("  %-22s %6.2f GB/s   plain %6.2f GB/s   ratio %.2f\n", what, median(log), median(plain),
                median(ratio));
  }
};

/// As many other blocks, each a prompt of its own.
std::vector<block_header> others(std::vector<block_header> headers) {
  for (auto& header : headers) {
    header.parent = make_root({.salt = "others"});
    header.first_position = 0;
    header.tokens[0] += 1u << 20;
    header.key = chain(header.parent, header.tokens);
  }
  return headers;
}

void measure(const workload& work, const bench_options& options,
             const std::function<std::unique_ptr<io_backend>()>& make_backend) {
  figures save;
  figures cold;
  figures warm;
  std::vector<double> quiet;
  std::vector<double> beside;
  std::size_t still_writing = 0;
  std::string name;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    log_under_test log(work, options.folder / "ssd_log_bench.log", make_backend());
    plain_file plain(work, options.folder / "ssd_log_bench.plain");
    name = log.backend_name();
    const double plain_write = plain.write();
    plain.forget();  // nothing of it is still being written while the log is measured
    save.add(log.save(), plain_write);
    log.forget();
    const double plain_cold = plain.read(8);
    cold.add(log.read(), plain_cold);
    const double plain_warm = plain.read(2);
    warm.add(log.read(), plain_warm);
    std::ranges::copy(log.read_singly(64), std::back_inserter(quiet));

    const auto other = others(work.headers);
    log.begin_saves(other);
    std::ranges::copy(log.read_singly(64), std::back_inserter(beside));
    still_writing = log.saving();
    log.finish_saves();
  }
  std::printf("%s\n", name.c_str());
  save.print("save");
  cold.print("read, cold");
  warm.print("read, warm");
  std::printf("  %-22s %6.3f ms;  while %zu blocks wait to be written: %6.3f ms, ratio %.2f\n",
              "one block, warm", 1e3 * median(quiet), still_writing, 1e3 * median(beside),
              median(beside) / median(quiet));
}

bench_options parse(int count, char** arguments) {
  bench_options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const auto at = argument.find('=');
    const auto name = argument.substr(0, at);
    const auto value = at == std::string_view::npos ? std::string_view() : argument.substr(at + 1);
    std::uint64_t number = 0;
    std::from_chars(value.data(), value.data() + value.size(), number);
    if (name == "--folder")
      options.folder = value;
    else if (name == "--megabytes" && number > 0)
      options.megabytes = number;
    else if (name == "--layers" && number > 0)
      options.layers = static_cast<std::uint32_t>(number);
    else if (name == "--rounds" && number > 0)
      options.rounds = static_cast<std::uint32_t>(number);
    else
      fail("what is " + std::string(argument) + "?");
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  const auto options = parse(count, arguments);
  const workload work(options);
  std::printf("%zu blocks of %zu KiB in %s, %u rounds\n", work.headers.size(), work.payload.size() >> 10,
              options.folder.c_str(), options.rounds);
  if (make_uring_backend()) measure(work, options, [] { return std::move(make_uring_backend()).value(); });
  measure(work, options, [] { return make_thread_backend(8); });
}
