#include "simulation/network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::simulation {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

core::duration duration_of(double seconds) {
  return core::duration(static_cast<core::duration::rep>(std::ceil(seconds * 1e9)));
}

double share(double bytes_per_second, std::size_t flows) {
  return bytes_per_second > 0 ? bytes_per_second / static_cast<double>(flows) : unlimited;
}

}  // namespace

network::network(event_queue& events, const virtual_clock& clock, const std::vector<node_link>& nodes)
    : events_(events), clock_(clock) {
  nodes_.reserve(nodes.size());
  for (const auto& link : nodes) nodes_.push_back({link, {}, {}});
}

network::flow_id network::start(std::uint32_t from, std::uint32_t to, double bytes,
                                std::function<void()> arrived) {
  YOLK_INVARIANT(from < nodes_.size() && to < nodes_.size(), from, to, nodes_.size());
  const auto id = ++last_id_;
  flows_.emplace(id, flow{.from = from, .to = to, .remaining_bytes = bytes, .arrived = std::move(arrived)});
  const auto& link = nodes_[from].link;
  const auto begin = clock_.now() + link.setup;
  if (from != to) {
    sent_bytes_ += bytes;
    events_.at(begin, [this, id] { join(id); });
    return id;
  }
  local_bytes_ += bytes;
  const double seconds = link.local_bytes_per_second > 0 ? bytes / link.local_bytes_per_second : 0.0;
  events_.at(begin + duration_of(seconds), [this, id] { finish(id); });
  return id;
}

void network::cancel(flow_id id) {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return;
  const flow gone = std::move(found->second);
  flows_.erase(found);
  if (gone.moving) leave(id, gone);
}

void network::join(flow_id id) {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return;
  auto& joined = found->second;
  joined.moving = true;
  joined.since = clock_.now();
  nodes_[joined.from].out.push_back(id);
  nodes_[joined.to].in.push_back(id);
  share_again(nodes_[joined.from].out);
  share_again(nodes_[joined.to].in);
}

void network::finish(flow_id id) {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return;
  const flow done = std::move(found->second);
  flows_.erase(found);
  if (done.moving) leave(id, done);
  done.arrived();
}

void network::leave(flow_id id, const flow& left) {
  auto& out = nodes_[left.from].out;
  auto& in = nodes_[left.to].in;
  out.erase(std::find(out.begin(), out.end(), id));
  in.erase(std::find(in.begin(), in.end(), id));
  share_again(out);
  share_again(in);
}

void network::share_again(const std::vector<flow_id>& flows) {
  const auto now = clock_.now();
  for (const auto id : flows) {
    auto& changed = flows_.at(id);
    const auto& from = nodes_[changed.from];
    const auto& to = nodes_[changed.to];
    const double rate = std::min(share(from.link.out_bytes_per_second, from.out.size()),
                                 share(to.link.in_bytes_per_second, to.in.size()));
    if (rate == changed.rate) continue;
    const double passed = std::chrono::duration<double>(now - changed.since).count();
    // Nothing has passed of what was unlimited: it arrives at the time of its start.
    if (changed.rate > 0 && changed.rate < unlimited)
      changed.remaining_bytes = std::max(0.0, changed.remaining_bytes - changed.rate * passed);
    changed.since = now;
    changed.rate = rate;
    plan_end(id, changed);
  }
}

void network::plan_end(flow_id id, flow& changed) {
  const auto version = ++changed.version;
  const auto end = clock_.now() + duration_of(changed.remaining_bytes / changed.rate);
  events_.at(end, [this, id, version] {
    const auto found = flows_.find(id);
    if (found != flows_.end() && found->second.version == version) finish(id);
  });
}

}  // namespace yolk::simulation
