#include "actors/cache_report.hpp"

#include "actors/conversions.hpp"

namespace yolk::actors {

namespace schema = messages::schema;

std::optional<messages::cache_events> cache_report::take() {
  if (unsent_.empty()) return std::nullopt;
  ++sequence_;
  auto events = messages::cache_events::build([&](schema::CacheEvents::Builder builder) {
    builder.setHolder(holder_.value);
    builder.setIncarnation(incarnation_.value);
    builder.setSequence(sequence_);
    auto changes = builder.initChanges(static_cast<unsigned>(unsent_.size()));
    for (unsigned i = 0; i < changes.size(); ++i) {
      changes[i].setStored(unsent_[i].what == kvcache::cache_event::kind::stored);
      write(changes[i].initKey(), unsent_[i].key);
    }
  });
  unsent_.clear();
  return events;
}

messages::cache_snapshot cache_report::snapshot(std::span<const kvcache::block_key> keys) const {
  static_assert(sizeof(kvcache::block_key) == 2 * sizeof(std::uint64_t), "keys travel as pairs of numbers");
  return messages::cache_snapshot::build([&](schema::CacheSnapshot::Builder builder) {
    builder.setHolder(holder_.value);
    builder.setIncarnation(incarnation_.value);
    builder.setSequence(sequence_);
    builder.setKeys(as_data(keys));
  });
}

}  // namespace yolk::actors
