#include "scheduling/decode_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace yolk::scheduling {

namespace {

void add(decode_shape& to, decode_shape what) {
  to.sequences += what.sequences;
  to.context_tokens += what.context_tokens;
}

void subtract(decode_shape& from, decode_shape what) {
  from.sequences -= what.sequences;
  from.context_tokens -= what.context_tokens;
}

}  // namespace

void decode_forecast::placed(std::uint64_t request, core::worker_id worker, decode_shape share,
                             double prefill_end_seconds) {
  const auto [at, fresh] = requests_.try_emplace(
      request, request_state{.worker = worker, .share = share, .begin_seconds = prefill_end_seconds});
  if (fresh) add(all_, share);
}

void decode_forecast::decoding(std::uint64_t request, double now_seconds) {
  const auto found = requests_.find(request);
  if (found == requests_.end() || found->second.known) return;
  found->second.begin_seconds = now_seconds;
  found->second.known = true;
  add(decoding_, found->second.share);
  add(decoding_by_worker_[found->second.worker], found->second.share);
}

void decode_forecast::ended(std::uint64_t request, double now_seconds) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  if (found->second.known) {
    const double took = std::max(0.0, now_seconds - found->second.begin_seconds);
    decode_seconds_ += (learnt_ ? options_.weight : 1.0) * (took - decode_seconds_);
    learnt_ = true;
    subtract(decoding_, found->second.share);
    const auto worker = decoding_by_worker_.find(found->second.worker);
    subtract(worker->second, found->second.share);
    if (worker->second.sequences == 0) decoding_by_worker_.erase(worker);
  }
  subtract(all_, found->second.share);
  requests_.erase(found);
}

bool decode_forecast::decodes_at(const request_state& request, double when_seconds) const {
  // A prefill that is late is about to end.
  return request.begin_seconds <= when_seconds && when_seconds < request.begin_seconds + decode_seconds_;
}

decode_shape decode_forecast::all_at(double when_seconds) const {
  decode_shape sum;
  for (const auto& [id, request] : requests_)
    if (decodes_at(request, when_seconds)) add(sum, request.share);
  return sum;
}

decode_shape decode_forecast::worker_at(core::worker_id worker, double when_seconds) const {
  decode_shape sum;
  for (const auto& [id, request] : requests_)
    if (request.worker == worker && decodes_at(request, when_seconds)) add(sum, request.share);
  return sum;
}

decode_shape decode_forecast::worker_expected_at(core::worker_id worker, horizon of) const {
  double sequences = 0.0;
  double context_tokens = 0.0;
  for (const auto& [id, request] : requests_) {
    if (request.worker != worker || request.begin_seconds > of.when_seconds) continue;
    // What is known to decode does so now, whenever it began; what is in prefill begins when it will.
    const double since = request.known ? of.now_seconds : std::max(of.now_seconds, request.begin_seconds);
    const double still = std::exp(-std::max(0.0, of.when_seconds - since) / std::max(decode_seconds_, 1e-9));
    sequences += still * request.share.sequences;
    context_tokens += still * static_cast<double>(request.share.context_tokens);
  }
  return {static_cast<std::uint32_t>(std::lround(sequences)), static_cast<std::uint64_t>(context_tokens)};
}

decode_shape decode_forecast::worker_decoding(core::worker_id worker) const {
  const auto found = decoding_by_worker_.find(worker);
  return found == decoding_by_worker_.end() ? decode_shape{} : found->second;
}

double decode_forecast::time_until_sequences(double from_seconds, std::uint32_t most) const {
  // (time, change): beginnings and ends after `from`, swept in order.
  std::vector<std::pair<double, std::int64_t>> changes;
  std::int64_t count = 0;
  for (const auto& [id, request] : requests_) {
    const auto sequences = static_cast<std::int64_t>(request.share.sequences);
    const double end = request.begin_seconds + decode_seconds_;
    if (end <= from_seconds) continue;
    if (request.begin_seconds <= from_seconds) {
      count += sequences;
    } else {
      changes.emplace_back(request.begin_seconds, sequences);
    }
    changes.emplace_back(end, -sequences);
  }
  if (count <= most) return from_seconds;
  std::ranges::sort(changes);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    count += changes[i].second;
    const bool more_then = i + 1 < changes.size() && changes[i + 1].first == changes[i].first;
    if (count <= most && !more_then) return changes[i].first;
  }
  return from_seconds;
}

}  // namespace yolk::scheduling
