#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/block_offer.hpp"
#include "actors/conversions.hpp"
#include "actors/decode_worker/decode_worker.hpp"
#include "core/background_thread.hpp"
#include "kvcache/prefix_cache.hpp"
#include "kvcache/sequence_blocks.hpp"

namespace yolk::actors {

// What the worker's threads tell its actor. Local, so plain structs.
struct decode_step_done {
  std::shared_ptr<const model::step_result> result;
};
struct decode_handoff_checked {
  std::uint64_t leg = 0;
  bool verified = false;
};

using decode_internal_actor =
    messages::decode_worker_actor::extend<caf::reacts_to<decode_step_done>,
                                          caf::reacts_to<decode_handoff_checked>, caf::reacts_to<offer_ready>,
                                          caf::reacts_to<messages::tick_atom>>;

/// waiting: no room yet. granted: KV may be written. checking: handed over, being hashed. resting: nobody's
/// any more, but a late write may still come.
enum class reservation_phase : std::uint8_t { waiting, granted, checking, resting };

/// Blocks promised to a prefill: owner, incarnation, and an end that needs no word from the peer.
struct reservation {
  explicit reservation(kvcache::prefix_cache& cache) : blocks(cache) {}

  leg_header header;
  messages::generate_request request;
  messages::session_actor session;
  caf::actor_addr owner;
  reservation_phase phase = reservation_phase::waiting;
  std::vector<core::token_id> tokens;
  kvcache::block_key root;
  std::uint32_t resident_blocks = 0;
  kvcache::sequence_blocks blocks;
  core::time_point end{};  ///< of the lease, or of the rest
  caf::typed_response_promise<messages::reservation_granted> promise;
  // from the handoff on
  messages::cache_shard_actor shard;
  std::vector<std::pair<std::uint32_t, core::token_id>> choices;
  std::uint32_t pool_cached_tokens = 0;
  bool cancelled = false;
};

/// One choice being generated.
struct decode_sequence {
  explicit decode_sequence(kvcache::sequence_blocks its_blocks) : blocks(std::move(its_blocks)) {}

  leg_header header;
  messages::generate_request request;
  messages::session_actor session;
  messages::cache_shard_actor shard;  ///< keeps its KV; null: none does
  kvcache::block_key root;
  std::uint32_t choice = 0;
  std::vector<core::token_id> tokens;  ///< prompt, then all generated; KV of the last is not computed yet
  std::uint32_t prompt_length = 0;
  std::uint32_t leg_length = 0;  ///< tokens that the prefill worker had: it offers those blocks itself
  std::uint32_t pool_cached_tokens = 0;
  core::sampling_params sampling;
  std::shared_ptr<model::sampler> sampler;
  kvcache::sequence_blocks blocks;
  bool in_step = false;
  bool ended = false;
  bool broken = false;  ///< its KV led to no finite logits: what was computed here is not kept
};

/// Owns the worker's blocks, reservations and running batch. Lives in the actor, used by its handlers alone.
class decode_state {
 public:
  decode_state(decode_internal_actor::pointer self, const decode_options& options,
               std::shared_ptr<worker_environment> environment);
  ~decode_state();

  caf::result<messages::reservation_granted> reserve(const messages::reserve_blocks& ask,
                                                     const messages::generate_request& request,
                                                     const messages::session_actor& session);
  void keep(std::uint64_t leg_id);
  void release(std::uint64_t leg_id);
  void take_over(const messages::kv_handoff& handoff, const messages::session_actor& session,
                 const messages::cache_shard_actor& shard);
  void handoff_checked(const decode_handoff_checked& checked);
  void cancel(std::uint64_t leg_id);
  /// All sequences, now and later, are given up to be resumed elsewhere; their blocks are offered first.
  void drain();
  void step_done(const decode_step_done& done);
  void send_offer(std::uint64_t number);
  void set_conductor(const messages::conductor_reports& conductor);
  void peer_down(const caf::actor_addr& who, const caf::error& why);
  void tick();
  [[nodiscard]] messages::actor_status status(std::uint64_t serial) const;

 private:
  using sequence_ptr = std::shared_ptr<decode_sequence>;
  using reservation_ptr = std::shared_ptr<reservation>;

  // reservations
  void grant_waiting();
  [[nodiscard]] bool grant(const reservation_ptr& asked);
  void drop(const reservation_ptr& dropped);
  void lose(const reservation_ptr& lost, const std::string& why);
  void rest(const reservation_ptr& lost, const std::string& why);
  void expire();
  void join(const reservation_ptr& arrived);
  // running
  void form_step();
  [[nodiscard]] bool make_room(const sequence_ptr& sequence);
  [[nodiscard]] bool preempt_one(const sequence_ptr& keep);
  void give_up(const leg_header& header, const std::string& why, bool keep_blocks);
  void advance(const sequence_ptr& sequence, const core::sampled_token& token);
  void give_up(const sequence_ptr& sequence);
  void end(const sequence_ptr& sequence, bool keep_blocks);
  // afterwards
  void offer(const sequence_ptr& sequence, std::uint32_t full_blocks);
  void offer_answered(std::uint64_t number);
  void report();
  [[nodiscard]] std::uint32_t block_tokens() const { return environment_->layout.block_tokens; }

  decode_internal_actor::pointer self_;
  decode_options options_;
  std::shared_ptr<worker_environment> environment_;
  messages::conductor_reports conductor_;
  std::set<caf::actor_addr> watched_;

  kvcache::prefix_cache cache_;
  std::map<std::uint64_t, reservation_ptr> reservations_;  ///< by leg id
  std::deque<reservation_ptr> waiting_;                    ///< those without room, in order of arrival
  std::vector<sequence_ptr> running_;                      ///< in order of joining
  bool draining_ = false;
  std::vector<sequence_ptr> step_;  ///< those in the open step, by slice

  core::time_point last_progress_;
  std::uint64_t steps_done_ = 0;
  std::uint64_t tokens_done_ = 0;
  std::uint64_t preemptions_ = 0;
  std::unique_ptr<core::background_thread> hashing_;
  open_offers offers_;
};

}  // namespace yolk::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::decode_step_done)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(yolk::actors::decode_handoff_checked)
