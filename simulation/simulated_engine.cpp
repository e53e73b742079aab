#include "simulation/simulated_engine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "core/invariant.hpp"

namespace yolk::simulation {

namespace {

/// Address space without memory behind it, until it is written.
class zero_region {
 public:
  explicit zero_region(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    void* const mapped =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    YOLK_INVARIANT(mapped != MAP_FAILED, bytes_);
    data_ = static_cast<std::byte*>(mapped);
  }
  ~zero_region() { ::munmap(data_, bytes_); }
  zero_region(const zero_region&) = delete;
  zero_region& operator=(const zero_region&) = delete;
  [[nodiscard]] std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

class simulated_engine final : public transport::transfer_engine {
 public:
  simulated_engine(fabric& fabric, const simulated_engine_options& options)
      : fabric_(fabric), options_(options), region_(options.region_bytes) {
    descriptor_.owner = options.owner;
    descriptor_.length_bytes = options.region_bytes;
    descriptor_.worker_address.resize(sizeof options.node);
    std::memcpy(descriptor_.worker_address.data(), &options.node, sizeof options.node);
    const bool fresh = fabric_.node_of.emplace(options.owner.value, options.node).second;
    YOLK_INVARIANT(fresh, options.owner.value);
  }

  ~simulated_engine() override {
    fabric_.node_of.erase(options_.owner.value);
    end_if([](const open_transfer&) { return true; },
           {transport::errc::stopped, "transfer: the engine ended"});
  }

  [[nodiscard]] std::span<std::byte> region() override { return region_.span(); }
  [[nodiscard]] const transport::region_descriptor& descriptor() const override { return descriptor_; }

  void put(const transport::region_descriptor& to, std::vector<transport::copy_range> ranges,
           core::duration deadline, completion done) override {
    begin({to, ranges, deadline, true}, std::move(done));
  }
  void get(const transport::region_descriptor& from, std::vector<transport::copy_range> ranges,
           core::duration deadline, completion done) override {
    begin({from, ranges, deadline, false}, std::move(done));
  }

  void forget(const transport::region_descriptor& peer) override {
    end_if([&](const open_transfer& open) { return open.peer == peer.owner; },
           {transport::errc::peer_unreachable, "transfer: the peer is gone"});
  }

  [[nodiscard]] transport::engine_counters counters() const override {
    auto counted = counters_;
    counted.queued = open_.size();
    return counted;
  }

 private:
  struct asked_transfer {
    const transport::region_descriptor& peer;
    const std::vector<transport::copy_range>& ranges;
    core::duration deadline;
    bool is_put = false;
  };
  struct open_transfer {
    core::incarnation peer;
    network::flow_id flow = 0;
    std::uint64_t link_bytes = 0;
    core::time_point begun{};
    bool is_put = false;
    completion done;
  };

  [[nodiscard]] bool fits(const asked_transfer& asked) const {
    return std::all_of(asked.ranges.begin(), asked.ranges.end(), [&](const transport::copy_range& range) {
      return range.local_offset + range.bytes <= options_.region_bytes &&
             range.remote_offset + range.bytes <= asked.peer.length_bytes;
    });
  }

  void begin(const asked_transfer& asked, completion done) {
    const auto found = fabric_.node_of.find(asked.peer.owner.value);
    if (found == fabric_.node_of.end())
      return refuse({transport::errc::peer_unreachable, "transfer: nobody has this incarnation"},
                    std::move(done));
    if (!fits(asked))
      return refuse({transport::errc::invalid_range, "transfer: a range ends beyond its region"},
                    std::move(done));
    std::uint64_t bytes = 0;
    for (const auto& range : asked.ranges) bytes += range.bytes;
    const double link_bytes = static_cast<double>(bytes) * options_.bytes_per_byte;
    const auto number = ++last_number_;
    const auto from = asked.is_put ? options_.node : found->second;
    const auto to = asked.is_put ? found->second : options_.node;
    auto& open = open_[number];
    open = {.peer = asked.peer.owner,
            .link_bytes = static_cast<std::uint64_t>(link_bytes),
            .begun = fabric_.clock.now(),
            .is_put = asked.is_put,
            .done = std::move(done)};
    open.flow = fabric_.links.start(from, to, link_bytes, [this, number] { arrived(number); });
    fabric_.events.at(open.begun + asked.deadline, [this, number, alive = std::weak_ptr(alive_)] {
      if (!alive.expired())
        end(number, {transport::errc::deadline_exceeded, "transfer: its deadline passed"});
    });
  }

  template <class Change>
  void count(Change change) {
    change(counters_);
    if (options_.totals != nullptr) change(*options_.totals);
  }

  void refuse(const core::failure<transport::errc>& why, completion done) {
    count([](transport::engine_counters& counters) { ++counters.failures; });
    fabric_.events.at(fabric_.clock.now(), [why, done = std::move(done)] { done(why); });
  }

  void arrived(std::uint64_t number) {
    auto found = open_.extract(number);
    auto& open = found.mapped();
    count([&](transport::engine_counters& counters) {
      ++counters.transfers;
      (open.is_put ? counters.put_bytes : counters.get_bytes) += open.link_bytes;
    });
    open.done(transport::transfer_report{open.link_bytes, fabric_.clock.now() - open.begun});
  }

  void end(std::uint64_t number, const core::failure<transport::errc>& why) {
    auto found = open_.extract(number);
    if (!found) return;
    fabric_.links.cancel(found.mapped().flow);
    count([](transport::engine_counters& counters) { ++counters.failures; });
    found.mapped().done(why);
  }

  template <class Predicate>
  void end_if(Predicate predicate, const core::failure<transport::errc>& why) {
    std::vector<std::uint64_t> ended;
    for (const auto& [number, open] : open_)
      if (predicate(open)) ended.push_back(number);
    for (const auto number : ended) end(number, why);
  }

  fabric& fabric_;
  simulated_engine_options options_;
  zero_region region_;
  transport::region_descriptor descriptor_;
  transport::engine_counters counters_;
  std::map<std::uint64_t, open_transfer> open_;
  std::uint64_t last_number_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace

std::unique_ptr<transport::transfer_engine> make_simulated_engine(fabric& fabric,
                                                                  const simulated_engine_options& options) {
  return std::make_unique<simulated_engine>(fabric, options);
}

}  // namespace yolk::simulation
