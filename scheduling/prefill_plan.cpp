#include "scheduling/prefill_plan.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace yolk::scheduling {

link_path path_between(location from, location to) {
  if (from.site != to.site) return link_path::site;
  return from.node == to.node ? link_path::local : link_path::network;
}

namespace {

/// The last token is computed in any case.
std::uint32_t reusable(std::uint32_t prompt_tokens) {
  return prompt_tokens > 0 ? prompt_tokens - 1 : 0;
}

bool holds_more(const prefix_holder& a, const prefix_holder& b) {
  return std::tuple(b.cached_tokens, a.transfers, a.holder) <
         std::tuple(a.cached_tokens, b.transfers, b.holder);
}

bool better(const prefill_candidate& candidate, const prefill_plan& a, const prefill_plan& b) {
  return std::tuple(overlapped_ttft_seconds(candidate, a), a.compute_seconds, a.transfer_seconds) <
         std::tuple(overlapped_ttft_seconds(candidate, b), b.compute_seconds, b.transfer_seconds);
}

}  // namespace

prefill_plan plan_from(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                       const prefix_holder* source, const cluster_view& view) {
  const std::uint32_t on_device = std::min(candidate.device_cached_tokens, reusable(prompt_tokens));
  prefill_plan plan{.reused_tokens = on_device};
  const std::uint32_t there =
      source != nullptr ? std::min(source->cached_tokens, reusable(prompt_tokens)) : 0;
  if (there > on_device) {
    plan.source = source;
    plan.reused_tokens = there;
    plan.transfer_seconds = view.latency->transfer_seconds(
        view.latency->kv_bytes(there - on_device), path_between(source->at, candidate.at), source->transfers);
  }
  plan.compute_seconds =
      view.latency->prefill_seconds({.prompt_tokens = prompt_tokens, .cached_tokens = plan.reused_tokens});
  return plan;
}

const prefix_holder* holder_on_node(const prefill_candidate& candidate, const cluster_view& view) {
  const prefix_holder* best = nullptr;
  for (const prefix_holder& holder : view.holders)
    if (path_between(holder.at, candidate.at) == link_path::local &&
        (best == nullptr || holds_more(holder, *best)))
      best = &holder;
  return best;
}

prefill_plan plan_on_node(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                          const cluster_view& view) {
  return plan_from(prompt_tokens, candidate, holder_on_node(candidate, view), view);
}

remote_holders::remote_holders(const cluster_view& view) {
  for (const prefix_holder& holder : view.holders) {
    if (holder.cached_tokens == 0) continue;
    // In order of holds_more: its place, unless one before it has as much at as few transfers.
    std::size_t at = 0;
    bool dominated = false;
    while (at < count_ && holds_more(*holders_[at], holder)) {
      dominated = dominated || holders_[at]->transfers <= holder.transfers;
      ++at;
    }
    if (dominated || at == capacity) continue;
    const auto first = holders_.begin() + static_cast<std::ptrdiff_t>(at);
    const auto last =
        std::remove_if(first, holders_.begin() + static_cast<std::ptrdiff_t>(count_),
                       [&](const prefix_holder* other) { return holder.transfers <= other->transfers; });
    count_ = static_cast<std::size_t>(last - holders_.begin());
    if (count_ == capacity) --count_;
    std::move_backward(first, holders_.begin() + static_cast<std::ptrdiff_t>(count_),
                       holders_.begin() + static_cast<std::ptrdiff_t>(count_) + 1);
    *first = &holder;
    ++count_;
  }
}

prefill_plan plan_cheapest(std::uint32_t prompt_tokens, const prefill_candidate& candidate,
                           const cluster_view& view, const remote_holders& remote) {
  prefill_plan best = plan_from(prompt_tokens, candidate, nullptr, view);
  const auto consider = [&](const prefix_holder* source) {
    if (source == nullptr || source->cached_tokens <= candidate.device_cached_tokens) return;
    const prefill_plan plan = plan_from(prompt_tokens, candidate, source, view);
    if (better(candidate, plan, best)) best = plan;
  };
  const prefix_holder* near = holder_on_node(candidate, view);
  consider(near);
  for (const prefix_holder* holder : remote.list())
    if (holder != near) consider(holder);
  return best;
}

double overlapped_ttft_seconds(const prefill_candidate& candidate, const prefill_plan& plan) {
  return std::max(candidate.queue_seconds, plan.transfer_seconds) + plan.compute_seconds;
}

double serial_ttft_seconds(const prefill_candidate& candidate, const prefill_plan& plan) {
  return candidate.queue_seconds + plan.transfer_seconds + plan.compute_seconds;
}

decode_choice choose_decode(const placement_request& request, const cluster_view& view) {
  // Room for the prompt and the first generated token.
  const std::uint64_t needed_tokens = std::uint64_t{request.prompt_tokens} + 1;
  // Half of what it will generate is there in the mean of its life.
  const std::uint64_t own_tokens =
      (std::uint64_t{request.prompt_tokens} + request.expected_output_tokens / 2) * request.choice_count;
  const auto mean_tbt = [&](const decode_candidate& candidate) {
    const auto room = std::numeric_limits<std::uint64_t>::max() - candidate.context_tokens;
    return view.latency->decode_seconds(
        {.sequences = candidate.sequences + request.choice_count,
         .context_tokens = candidate.context_tokens + std::min(own_tokens, room)});
  };
  const decode_candidate* best = nullptr;
  double best_seconds = 0.0;
  for (const decode_candidate& candidate : view.decode) {
    const double seconds = mean_tbt(candidate);
    const auto rank = [&](const decode_candidate& c, double tbt) {
      return std::tuple(c.free_tokens < needed_tokens, tbt, c.context_tokens, c.worker);
    };
    if (best != nullptr && rank(*best, best_seconds) <= rank(candidate, seconds)) continue;
    best = &candidate;
    best_seconds = seconds;
  }
  return {best->worker, best_seconds};
}

placement placement_of(const placement_request& request, const cluster_view& view,
                       const prefill_candidate& candidate, const prefill_plan& plan) {
  const decode_choice decode = choose_decode(request, view);
  placement made{.prefill = candidate.worker,
                 .decode = decode.worker,
                 .reused_tokens = plan.reused_tokens,
                 .service_seconds = plan.compute_seconds,
                 .predicted_ttft_seconds = overlapped_ttft_seconds(candidate, plan),
                 .predicted_tbt_seconds = decode.tbt_seconds};
  if (plan.source != nullptr) {
    made.source = plan.source->holder;
    made.source_tokens = plan.source->cached_tokens;
  }
  return made;
}

}  // namespace yolk::scheduling
