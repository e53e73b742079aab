#include "actors/cache_shard/look_ahead.hpp"

#include <algorithm>
#include <utility>

namespace yolk::actors {

look_ahead::look_ahead(const shard_options& options, const shard_environment& environment,
                       kvcache::dram_arena& arena, ssd_tier* ssd)
    : options_(options), environment_(environment), arena_(arena), ssd_(ssd) {}

void look_ahead::want(std::uint64_t leg, prefix prompt) {
  if (options_.eviction != kvcache::eviction_order::look_ahead) return;
  const auto found = wants_.find(leg);
  if (found == wants_.end() && wants_.size() >= options_.max_wants) return;
  auto& what = found != wants_.end() ? found->second : wants_[leg];
  what.prompt = std::move(prompt);
  what.end = environment_.clock->now() + options_.want_lease;
  what.asked = false;
  protect(what);
  load_next();
}

void look_ahead::forget(std::uint64_t leg) {
  const auto found = wants_.find(leg);
  if (found == wants_.end()) return;
  release(found->second);
  wants_.erase(found);
}

std::uint32_t look_ahead::room() const {
  const auto most = arena_.slot_count() / 2;
  return most - std::min(most, pinned_);
}

void look_ahead::release(wanted& what) {
  if (what.pin.value != 0) arena_.unpin(std::exchange(what.pin, {}));
  pinned_ -= std::exchange(what.blocks, 0);
}

void look_ahead::protect(wanted& what) {
  // The new pin before the old one ends, so that nothing is free between them.
  const auto most = std::size_t{room() + what.blocks} * environment_.layout.block_tokens;
  const auto pinned = arena_.pin(what.prompt.root, what.prompt.tokens, most, {environment_.id, what.end});
  release(what);
  what.pin = pinned.id;
  what.blocks = static_cast<std::uint32_t>(pinned.blocks.size());
  pinned_ += what.blocks;
}

void look_ahead::load_next() {
  if (ssd_ == nullptr || loading_ || ssd_->load_count() > 0) return;
  for (auto& [leg, what] : wants_) {
    if (what.asked) continue;
    what.asked = true;
    const auto most = (room() + what.blocks) * environment_.layout.block_tokens;
    loading_ = true;
    const bool begun =
        ssd_->load({.root = what.prompt.root, .tokens = what.prompt.tokens, .max_tokens = most},
                   [this, leg = leg](bool) {
                     loading_ = false;
                     if (const auto still = wants_.find(leg); still != wants_.end()) protect(still->second);
                     load_next();
                   });
    if (begun) return;
    loading_ = false;
  }
}

void look_ahead::tick() {
  const auto now = environment_.clock->now();
  for (auto next = wants_.begin(); next != wants_.end();) {
    const auto at = next++;
    if (at->second.end <= now) forget(at->first);
  }
  load_next();
}

}  // namespace yolk::actors
