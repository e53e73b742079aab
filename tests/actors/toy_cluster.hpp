#pragma once

#include <caf/all.hpp>
#include <caf/io/middleman.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/admission_controller/admission_controller.hpp"
#include "actors/cache_shard/cache_shard.hpp"
#include "actors/conductor/conductor.hpp"
#include "actors/conversions.hpp"
#include "actors/decode_worker/decode_worker.hpp"
#include "actors/prefill_worker/prefill_worker.hpp"
#include "tests/actors/toy_executor.hpp"

// All actors between the gateway and the device, over the toy model and real transfer engines.
namespace yolk::tests {

struct generation_ask {
  std::vector<core::token_id> prompt;
  std::uint32_t max_tokens = 8;
  std::uint32_t choices = 1;
  bool ignore_end = true;
  float temperature = 0.0f;
  std::string tenant;
};

struct generation_outcome {
  std::vector<std::vector<core::token_id>> tokens;  ///< by choice
  std::uint32_t cached_tokens = 0;
  std::uint32_t resumes = 0;
  std::vector<std::string> failures;  ///< reasons, by name
  bool gave_up = false;
};

using test_session_actor =
    messages::session_actor::extend<caf::reacts_to<caf::atom_constant<caf::atom("cancel")>>>;
using cancel_atom = caf::atom_constant<caf::atom("cancel")>;

struct cluster_shape {
  std::uint32_t prefill_workers = 1;
  std::uint32_t decode_workers = 1;
  std::uint32_t prefill_blocks = 64;
  std::uint32_t decode_blocks = 64;
  std::uint32_t shard_blocks = 64;
  std::uint32_t chunk_tokens = 8;
  std::uint32_t max_batch = 8;
  std::filesystem::path ssd_folder;  ///< empty = no SSD tier
  std::uint64_t ssd_bytes = std::uint64_t{1} << 20;
  actors::cache_write_policy write_policy = actors::cache_write_policy::write_through;
  kvcache::eviction_order eviction = kvcache::eviction_order::lru;
  std::size_t finite_tokens = 1 << 20;  ///< a longer sequence has no finite logits
  scheduling::admission_limits admission{};
  actors::conductor_options conductor{};  ///< but for block_tokens, which are the toy's
  actors::decode_options decode{};
  /// Wraps a worker's engine, e.g. with faults.
  std::function<std::unique_ptr<transport::transfer_engine>(std::string who,
                                                            std::unique_ptr<transport::transfer_engine>)>
      wrap;
};

class toy_cluster {
 public:
  explicit toy_cluster(cluster_shape shape);
  ~toy_cluster();

  struct running {
    caf::actor session;
    std::future<generation_outcome> outcome;
  };
  running begin(const generation_ask& ask);
  generation_outcome generate(const generation_ask& ask);
  /// The outcome; a request that hangs ends the test with what every actor says of itself.
  generation_outcome await(running& started);
  void cancel(const running& started) { caf::anon_send(started.session, cancel_atom::value); }

  void kill_decode(std::uint32_t index);
  void kill_prefill(std::uint32_t index);
  void kill_shard();
  void start_decode(std::uint32_t index);
  void start_prefill(std::uint32_t index);
  void start_shard();

  /// Waits until every actor says that nothing is held; the audit texts that are left when it does not come.
  std::string settle();
  std::string describe();
  messages::actor_status status_of(const caf::actor& who);
  [[nodiscard]] caf::actor decode(std::uint32_t index) const {
    return caf::actor_cast<caf::actor>(decode_.at(index));
  }
  [[nodiscard]] caf::actor prefill(std::uint32_t index) const {
    return caf::actor_cast<caf::actor>(prefill_.at(index));
  }
  [[nodiscard]] caf::actor shard() const { return caf::actor_cast<caf::actor>(shard_); }
  [[nodiscard]] std::shared_ptr<actors::metrics> recorder() const { return recorder_; }
  caf::actor_system& system() { return system_; }

 private:
  std::unique_ptr<transport::transfer_engine> engine(const std::string& who, std::uint32_t blocks,
                                                     core::incarnation incarnation);
  std::shared_ptr<actors::worker_environment> environment(const std::string& who, core::worker_id id,
                                                          std::uint32_t blocks);
  [[nodiscard]] std::vector<caf::actor> everyone() const;

  cluster_shape shape_;
  caf::actor_system_config config_;
  caf::actor_system system_;
  std::shared_ptr<actors::metrics> recorder_ = std::make_shared<actors::metrics>("toy");
  std::shared_ptr<core::steady_clock> clock_ = std::make_shared<core::steady_clock>();
  std::uint64_t last_incarnation_ = 0;
  std::uint64_t last_leg_ = 0;
  messages::conductor_actor conductor_;
  messages::admission_controller_actor admission_;
  messages::cache_shard_actor shard_;
  std::map<std::uint32_t, messages::prefill_worker_actor> prefill_;
  std::map<std::uint32_t, messages::decode_worker_actor> decode_;
};

}  // namespace yolk::tests
