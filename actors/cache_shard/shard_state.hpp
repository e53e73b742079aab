#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>
#include <functional>
#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

#include "actors/cache_report.hpp"
#include "actors/cache_shard/cache_shard.hpp"
#include "actors/cache_shard/look_ahead.hpp"
#include "actors/cache_shard/ssd_tier.hpp"
#include "actors/conversions.hpp"
#include "core/background_thread.hpp"
#include "kvcache/dram_arena.hpp"

namespace yolk::actors {

// What the shard's threads tell its actor. Local, so plain structs.
struct shard_offer_arrived {
  std::uint64_t number = 0;
  std::uint32_t good_blocks = 0;  ///< leading blocks that arrived and were verified
};

/// Something that is to run on the actor's thread.
struct shard_call {
  std::function<void()> run;
};

using shard_internal_actor =
    messages::cache_shard_actor::extend<caf::reacts_to<shard_offer_arrived>, caf::reacts_to<shard_call>,
                                        caf::reacts_to<messages::tick_atom>>;

/// Owns the arena's books. Lives in the actor, used by its handlers alone.
class shard_state {
 public:
  shard_state(shard_internal_actor::pointer self, const shard_options& options,
              std::shared_ptr<shard_environment> environment);
  ~shard_state();

  caf::result<messages::prefix_pinned> look_up(const messages::lookup_prefix& ask,
                                               const messages::generate_request& request);
  void unpin(std::uint64_t pin);
  void want(const messages::want_prefix& want, const messages::generate_request& request);
  void forget_want(std::uint64_t leg);
  caf::result<messages::offer_done> take_offer(const messages::offer_blocks& offer);
  void offer_arrived(const shard_offer_arrived& arrived);
  void set_peers(const messages::conductor_reports& conductor);
  void peer_down(const caf::actor_addr& who);
  void tick();
  [[nodiscard]] messages::actor_status status(std::uint64_t serial) const;
  [[nodiscard]] messages::cache_snapshot snapshot() const;

 private:
  /// Blocks on their way into reserved slots.
  struct open_offer {
    std::uint64_t offer = 0;  ///< the worker's number
    kvcache::block_key root;
    std::vector<kvcache::arena_slot> slots;
    std::vector<kvcache::block_header> headers;
    caf::typed_response_promise<messages::offer_done> promise;
  };

  /// An offer whose beginning is not cached yet: a prompt's own offer may still be on its way.
  struct parked_offer {
    messages::offer_blocks offer;
    caf::typed_response_promise<messages::offer_done> promise;
    core::time_point end{};
  };

  using lookup_promise = caf::typed_response_promise<messages::prefix_pinned>;
  /// Answers, at once or when SSD has given what it has; without SSD after `end`.
  void answer_lookup(const messages::lookup_prefix& ask, const messages::generate_request& request,
                     lookup_promise promise, core::time_point end);
  /// What DRAM has of the prompt, pinned.
  [[nodiscard]] messages::prefix_pinned pin_prefix(const messages::lookup_prefix& ask,
                                                   const messages::generate_request& request);
  /// Starts to fetch the blocks that are new; false when the chain's beginning is not cached.
  [[nodiscard]] bool try_take(const messages::offer_blocks& offer,
                              caf::typed_response_promise<messages::offer_done>& promise);
  void retry_parked();
  [[nodiscard]] std::uint32_t count_verified(const open_offer& offer) const;
  [[nodiscard]] static messages::offer_done answer(std::uint64_t offer, std::uint32_t stored);
  void send_events();

  shard_internal_actor::pointer self_;
  shard_options options_;
  std::shared_ptr<shard_environment> environment_;
  messages::conductor_reports conductor_;
  kvcache::dram_arena arena_;
  std::unordered_set<kvcache::block_key> stored_;  ///< what the arena can find, by key
  std::map<std::uint64_t, std::shared_ptr<open_offer>> offers_;
  /// Workers that offered blocks: their regions stay mapped here until they are forgotten.
  std::map<caf::actor_addr, transport::region_descriptor> sources_;
  std::vector<parked_offer> parked_;
  std::uint64_t next_offer_ = 1;
  cache_report cache_report_;
  std::uint64_t offers_done_ = 0;
  std::unique_ptr<core::background_thread> hashing_;
  std::unique_ptr<ssd_tier> ssd_;  ///< null = none
  std::unique_ptr<look_ahead> look_ahead_;
};

}  // namespace yolk::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::shard_offer_arrived)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::shard_call)
