#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "actors/conductor/conductor.hpp"
#include "actors/conversions.hpp"
#include "kvcache/cache_index.hpp"
#include "scheduling/decode_forecast.hpp"
#include "scheduling/queue_estimate.hpp"

namespace yolk::actors {

using conductor_internal_actor = messages::conductor_actor::extend<caf::reacts_to<messages::tick_atom>>;

/// prefilling: with its prefill worker. decoding: handed over. A leg ends when its session says so.
enum class placed_phase : std::uint8_t { waiting, prefilling, decoding };

struct placed_leg {
  leg_header header;
  messages::generate_request request;
  messages::session_actor session;
  messages::cache_shard_actor source;  ///< has a part of its KV; null: not pulled
  messages::cache_shard_actor keeper;  ///< keeps its KV; null: none does
  std::uint32_t kept_tokens = 0;       ///< of its prompt, by the keeper
  std::uint32_t token_count = 0;
  std::uint32_t choice_count = 1;
  placed_phase phase = placed_phase::waiting;
  core::worker_id prefill;
  core::worker_id decode;
  std::uint32_t uncached_tokens = 0;  ///< counted into the prefill worker's queue until PrefillEnded
  core::time_point wait_end{};        ///< without any worker
  double arrived_seconds = 0.0;
  double wait_key = 0.0;         ///< its place among those that wait
  double service_seconds = 0.0;  ///< predicted prefill, while it is held
  bool held = false;             ///< no worker had time for it; it is admitted
};

/// Owns the view of the cluster. Lives in the actor, used by its handlers alone.
class conductor_state {
 public:
  conductor_state(conductor_internal_actor::pointer self, const conductor_options& options,
                  conductor_environment environment);

  void place(const messages::generate_request& request, const messages::session_actor& session);
  void leg_ended(const messages::leg_ended& ended);
  void prefill_ended(const messages::prefill_ended& ended);
  void load_changed(const messages::worker_load& load);
  void cache_changed(const messages::cache_events& events);
  template <class Handle>
  void joined(const messages::actor_joined& news, const Handle& handle);
  /// Nothing more is placed on that node's workers; its decode workers give up what they generate.
  void drain(std::uint32_t node);
  void peer_down(const caf::actor_addr& who);
  void tick();
  [[nodiscard]] messages::actor_status status(std::uint64_t serial) const;

 private:
  template <class Handle>
  struct worker {
    Handle handle;
    core::incarnation incarnation;
    std::uint64_t free_tokens = 0;  ///< as reported
    std::uint64_t placed_tokens =
        0;  ///< prefill: not computed yet; decode: context of its legs. Paired counting
    std::uint32_t placed_sequences = 0;
    scheduling::queue_estimate queue;  ///< of a prefill worker
    bool draining = false;
  };
  using prefill_map = std::map<core::worker_id, worker<messages::prefill_worker_actor>>;
  using decode_map = std::map<core::worker_id, worker<messages::decode_worker_actor>>;
  using shard_map = std::map<core::worker_id, worker<messages::cache_shard_actor>>;

  prefill_map& workers_of(const messages::prefill_worker_actor&) { return prefill_; }
  decode_map& workers_of(const messages::decode_worker_actor&) { return decode_; }
  shard_map& workers_of(const messages::cache_shard_actor&) { return shards_; }

  /// held: every worker is busy, the first that is not gets it. refused: the session was told, the leg is to
  /// be forgotten.
  enum class attempt : std::uint8_t { placed, held, no_worker, refused };
  [[nodiscard]] attempt try_place(placed_leg& leg);
  attempt start(placed_leg& leg, const scheduling::placement& chosen);
  /// Sets the leg's source and keeper, too.
  [[nodiscard]] std::optional<scheduling::placement> choose(placed_leg& leg, bool may_hold);
  [[nodiscard]] attempt hold(placed_leg& leg);
  /// False: the session was told that the leg is refused.
  [[nodiscard]] bool admit(const placed_leg& leg, const scheduling::placement& where);
  /// Of those that are held and would go before a leg with this key.
  struct held_sum {
    double prefill_seconds = 0.0;  ///< predicted
    scheduling::decode_shape decode;
  };
  [[nodiscard]] held_sum held_before(double key) const;
  [[nodiscard]] scheduling::slo_view slo_view_of(const placed_leg& leg,
                                                 const scheduling::placement& where) const;
  void refuse(const placed_leg& leg, const scheduling::slo_decision& decision);
  [[nodiscard]] double now_seconds() const;
  /// Where a prompt's KV is kept: on the prefill worker's own node, which costs no link and keeps what was
  /// pulled near to where it is used; where that has no shard, with the shard that has most of the prompt,
  /// else with any, by the prompt. Null without shards.
  void choose_keeper(placed_leg& leg, std::span<const scheduling::prefix_holder> holders,
                     std::uint64_t spread, core::worker_id prefill) const;
  void place_waiting();
  void uncount_prefill(placed_leg& leg);
  /// Also takes it from those that wait.
  void uncount_decode(const placed_leg& leg);
  void tell_workers_to_cancel(const placed_leg& leg);
  void fail_legs_of(core::worker_id lost, bool was_prefill);
  template <class Map>
  std::optional<core::worker_id> forget(Map& workers, const caf::actor_addr& who);
  void ask_for_snapshot(core::worker_id holder);

  conductor_internal_actor::pointer self_;
  conductor_options options_;
  conductor_environment environment_;
  prefill_map prefill_;
  decode_map decode_;
  shard_map shards_;
  kvcache::cache_index index_;
  std::unique_ptr<scheduling::placement_policy> policy_;
  scheduling::corrected_model latency_;
  scheduling::admission_rule rule_;
  scheduling::decode_forecast forecast_;
  std::unordered_map<std::uint64_t, placed_leg> legs_;
  std::set<std::pair<double, std::uint64_t>> waiting_;  ///< legs by wait_key
  std::uint64_t placements_ = 0;
};

}  // namespace yolk::actors
