#include "actors/cache_shard/ssd_tier.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace yolk::actors {

ssd_tier::ssd_tier(const shard_options& options, shard_environment& environment, kvcache::dram_arena& arena,
                   kvcache::ssd_log::poster post)
    : options_(options), environment_(environment), arena_(arena), log_(std::move(environment.ssd)) {
  log_->attach(std::move(post));
}

ssd_tier::~ssd_tier() {
  if (options_.write_policy == cache_write_policy::write_back) save_everything();
  log_->flush(options_.save_limit);
  report();
}

std::span<std::byte> ssd_tier::bytes_of(core::block_index slot) const {
  return environment_.transfers->region().subspan(arena_.slot_offset(slot),
                                                  environment_.layout.block_bytes());
}

void ssd_tier::set_listener(std::function<void(const kvcache::cache_event&)> listener) {
  log_->set_listener(std::move(listener));
}

void ssd_tier::stored(std::span<const kvcache::block_key> keys) {
  if (options_.write_policy == cache_write_policy::write_through) save(keys);
}

void ssd_tier::save(std::span<const kvcache::block_key> keys) {
  std::vector<kvcache::pinned_prefix::block> blocks;
  std::vector<kvcache::arena_slot> slots;
  for (const auto& key : keys) {
    if (log_->knows(key)) continue;
    const auto found = arena_.find(key);
    if (!found) continue;
    blocks.push_back(*found);
    slots.push_back(found->slot);
  }
  // The log writes from the slots themselves. A pin that ends before the write does can spoil the record; its
  // reader finds that by the checksums.
  const auto pin =
      arena_.pin(slots, {environment_.id, environment_.clock->now() + options_.reservation_lease});
  if (pin.value == 0) return;
  const auto open = std::make_shared<std::size_t>(1);
  const auto ended = [this, pin, open] {
    if (--*open == 0) arena_.unpin(pin);
  };
  for (const auto& block : blocks) {
    ++*open;
    if (log_->save(*block.header, bytes_of(block.slot.slot), [ended](bool) { ended(); }) !=
        kvcache::ssd_log::save_outcome::started)
      --*open;
  }
  ended();
}

/// What will be evicted next is saved before that, with all that it continues.
void ssd_tier::save_next_evictions() {
  std::vector<kvcache::block_key> keys;
  std::unordered_set<kvcache::block_key> seen;
  const auto count = std::max(1u, static_cast<std::uint32_t>(arena_.slot_count() * options_.save_ahead));
  for (const auto& leaf : arena_.cache().next_evictions(count)) {
    const auto first = static_cast<std::ptrdiff_t>(keys.size());
    for (auto found = arena_.find(leaf);
         found && !log_->knows(found->header->key) && seen.insert(found->header->key).second;
         found = arena_.find(found->header->parent)) {
      keys.push_back(found->header->key);
      if (found->header->first_position == 0) break;
    }
    std::reverse(keys.begin() + first, keys.end());
  }
  // What does not fit into the queue is tried again at the next tick.
  const auto room = log_->saving_room();
  save(std::span(keys).first(std::min(keys.size(), room)));
}

void ssd_tier::save_everything() {
  const auto keys = arena_.snapshot();  // parents first
  std::vector<kvcache::block_key> unsaved;
  for (const auto& key : keys)
    if (!log_->knows(key)) unsaved.push_back(key);
  save(std::span(unsaved).first(std::min(unsaved.size(), log_->saving_room())));
}

bool ssd_tier::load(const wanted& prompt, load_ended on_end) {
  const auto block_tokens = environment_.layout.block_tokens;
  const auto tokens = prompt.tokens.first(std::min<std::size_t>(prompt.tokens.size(), prompt.max_tokens));
  const auto cached = arena_.cache().match_count(prompt.root, tokens);
  auto keys = log_->match(prompt.root, tokens, cached, tokens.size());
  if (keys.empty() || (cached + keys.size()) * block_tokens <= prompt.skip_tokens) return false;
  if (const auto same = loading_.find(keys.front()); same != loading_.end()) {
    auto& ends = loads_.at(same->second).ends;
    if (ends.empty() || ends.size() >= options_.max_loads) return false;  // late already, or too many wait
    ends.emplace_back(std::move(on_end), true);
    return true;
  }
  if (loads_.size() >= options_.max_loads) return false;

  const auto now = environment_.clock->now();
  const kvcache::arena_lease lease{environment_.id, now + options_.reservation_lease};
  const auto beginning = arena_.pin(prompt.root, tokens, std::size_t{cached} * block_tokens, lease);
  const auto count = std::min<std::size_t>(keys.size(), arena_.cache().available_count());
  auto slots = beginning.blocks.size() == cached && count > 0
                   ? arena_.reserve(static_cast<std::uint32_t>(count), lease)
                   : std::nullopt;
  if (!slots) {
    if (beginning.id.value != 0) arena_.unpin(beginning.id);
    return false;
  }
  keys.resize(count);
  const auto number = next_load_++;
  loading_.emplace(keys.front(), number);
  auto& opened = loads_[number];
  opened = {.root = prompt.root,
            .beginning = beginning.id,
            .keys = std::move(keys),
            .slots = std::move(*slots),
            .headers = std::vector<std::optional<kvcache::block_header>>(count),
            .begin = now};
  opened.ends.emplace_back(std::move(on_end), false);
  for (std::size_t i = 0; i < count; ++i) {
    if (!log_->read(opened.keys[i], bytes_of(opened.slots[i].slot),
                    [this, number, i](std::optional<kvcache::block_header> header) {
                      read_ended(number, i, std::move(header));
                    }))
      break;  // what follows could not be used without it
    ++opened.reading;
  }
  if (--opened.reading == 0) finish(number);
  return true;
}

void ssd_tier::read_ended(std::uint64_t number, std::size_t index,
                          std::optional<kvcache::block_header> header) {
  auto& load = loads_.at(number);
  load.headers[index] = std::move(header);
  if (--load.reading == 0) finish(number);
}

void ssd_tier::finish(std::uint64_t number) {
  auto load = std::move(loads_.at(number));
  loads_.erase(number);
  loading_.erase(load.keys.front());
  bool whole = true;
  for (std::size_t i = 0; i < load.slots.size(); ++i) {
    if (!whole || !load.headers[i]) {
      whole = false;
      arena_.abandon(load.slots[i]);
      continue;
    }
    const auto outcome = arena_.commit(load.slots[i], std::move(*load.headers[i]), load.root);
    whole = outcome == kvcache::commit_outcome::stored || outcome == kvcache::commit_outcome::already_cached;
  }
  if (load.beginning.value != 0) arena_.unpin(load.beginning);
  environment_.recorder->ssd_load(environment_.clock->now() - load.begin);
  report();
  for (const auto& [on_end, again] : load.ends) on_end(again);
}

void ssd_tier::tick() {
  const auto now = environment_.clock->now();
  std::vector<std::pair<load_ended, bool>> late;
  for (auto& [number, load] : loads_) {
    if (now < load.begin + options_.load_limit) continue;
    std::ranges::move(load.ends, std::back_inserter(late));
    load.ends.clear();  // its blocks are kept when they come
  }
  for (const auto& [on_end, again] : late) on_end(false);
  if (options_.write_policy == cache_write_policy::write_back) save_next_evictions();
  report();
}

void ssd_tier::report() {
  const auto& now = log_->counters();
  auto& recorder = *environment_.recorder;
  const auto tell = [&](metrics::ssd_event event, std::uint64_t kvcache::ssd_log_counters::*counter) {
    if (const auto news = now.*counter - reported_.*counter; news > 0)
      recorder.ssd_blocks(event, news, news * environment_.layout.block_bytes());
  };
  using counters = kvcache::ssd_log_counters;
  using event = metrics::ssd_event;
  tell(event::restored, &counters::restored_blocks);
  tell(event::saved, &counters::saved_blocks);
  tell(event::save_dropped, &counters::dropped_saves);
  tell(event::save_failed, &counters::failed_saves);
  tell(event::read, &counters::read_blocks);
  tell(event::read_failed, &counters::failed_reads);
  tell(event::check_failed, &counters::failed_checks);
  tell(event::reclaimed, &counters::reclaimed_blocks);
  reported_ = now;
  recorder.kv_usage("ssd", "cache", environment_.id.value,
                    static_cast<double>(log_->used_bytes()) / static_cast<double>(log_->byte_limit()));
}

}  // namespace yolk::actors
