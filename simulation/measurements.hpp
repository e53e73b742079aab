#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "simulation/cluster_description.hpp"
#include "simulation/histogram.hpp"
#include "simulation/simulated_executor.hpp"
#include "simulation/time_series.hpp"
#include "transport/transfer_engine.hpp"

namespace yolk::simulation {

enum class request_end : std::uint8_t { finished, refused, failed };

/// One request as its client saw it.
struct request_outcome {
  core::time_point arrival{};
  core::time_point first_token{};  ///< only when there was one
  core::time_point end{};
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t resumes = 0;
  request_end how = request_end::finished;
  std::string cause;               ///< of a refusal or failure
  std::vector<float> gap_seconds;  ///< between its tokens
};

/// What a simulation is asked about, gathered while it runs. Owned by the replay; one thread.
class measurements {
 public:
  measurements(core::time_point start, const slo_description& slo) : start_(start), slo_(slo) {}

  void arrived(core::time_point now);
  void first_token(core::time_point now);
  void ended(request_outcome outcome);
  void stepped(node_role role, const device_step& step);

  struct totals {
    std::uint64_t arrived = 0, finished = 0, refused = 0, failed = 0, resumes = 0;
    std::uint64_t first_tokens = 0;
    std::uint64_t ttft_met = 0, tbt_met = 0, both_met = 0;  ///< of the finished
    std::uint64_t refused_after_first_token = 0;
    std::uint64_t input_tokens = 0, cached_tokens = 0, generated_tokens = 0;  ///< of those with a first token
    std::uint64_t prefill_steps = 0, decode_steps = 0;
    double prefill_busy_seconds = 0.0, decode_busy_seconds = 0.0;
  };
  [[nodiscard]] const totals& count() const { return totals_; }
  [[nodiscard]] const histogram& ttft() const { return ttft_; }
  [[nodiscard]] const histogram& tbt() const { return tbt_; }  ///< of requests
  [[nodiscard]] const histogram& gaps() const { return gaps_; }
  [[nodiscard]] const histogram& end_to_end() const { return end_to_end_; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& causes() const { return causes_; }
  [[nodiscard]] double seconds_since_start(core::time_point time) const;

  /// By the time since the start, in seconds.
  time_series arrivals, goodput, refusals, prefill_busy, decode_busy, decode_sequences;
  level_series waiting, decoding;

  /// Summed over the engines of each kind of actor.
  transport::engine_counters prefill_transfers, decode_transfers, shard_transfers;

 private:
  core::time_point start_;
  slo_description slo_;
  totals totals_;
  histogram ttft_, tbt_, gaps_, end_to_end_;
  std::map<std::string, std::uint64_t> causes_;
};

}  // namespace yolk::simulation
