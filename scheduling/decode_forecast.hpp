#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "core/ids.hpp"
#include "scheduling/latency_model.hpp"

namespace yolk::scheduling {

/// What the decode workers will carry at a time to come (Mooncake's prediction of load, arXiv 2407.00079,
/// section 7): requests whose prefill will have ended by then are counted, those that will have decoded for
/// longer than a request's usual time are not. How long that is is learnt from those that end. Owned by
/// whoever places; times are of any clock that does not go back. Not thread-safe.
class decode_forecast {
 public:
  struct options {
    double decode_seconds = 10.0;  ///< a request's usual time in decode, until one has ended
    double weight = 0.02;          ///< of a new ending in that mean
  };
  explicit decode_forecast(options given) : options_(given), decode_seconds_(given.decode_seconds) {}
  decode_forecast() : decode_forecast(options{}) {}

  /// `share`: the sequences and the context that the request adds to its worker's batch.
  void placed(std::uint64_t request, core::worker_id worker, decode_shape share, double prefill_end_seconds);
  /// Its prefill has ended. Unknown requests are ignored here and below.
  void decoding(std::uint64_t request, double now_seconds);
  void ended(std::uint64_t request, double now_seconds);

  /// The sum over all workers, or what one of them carries.
  [[nodiscard]] decode_shape all_at(double when_seconds) const;
  [[nodiscard]] decode_shape worker_at(core::worker_id worker, double when_seconds) const;
  /// As worker_at, but each that decodes is counted by the chance that it still will, as if ends came at
  /// random: nearer to the truth for a time that is near.
  struct horizon {
    double now_seconds = 0.0;
    double when_seconds = 0.0;
  };
  [[nodiscard]] decode_shape worker_expected_at(core::worker_id worker, horizon of) const;
  /// Of all that were placed and have not ended, in prefill or decode.
  [[nodiscard]] decode_shape all() const { return all_; }
  /// What is decoding now, known and not predicted; all, or of one worker.
  [[nodiscard]] decode_shape all_decoding() const { return decoding_; }
  [[nodiscard]] decode_shape worker_decoding(core::worker_id worker) const;
  /// The first time from `from_seconds` on at which no more than `most` sequences are predicted to decode, if
  /// nothing more arrives.
  [[nodiscard]] double time_until_sequences(double from_seconds, std::uint32_t most) const;
  [[nodiscard]] double decode_seconds() const { return decode_seconds_; }
  [[nodiscard]] std::size_t size() const { return requests_.size(); }

 private:
  struct request_state {
    core::worker_id worker;
    decode_shape share;
    double begin_seconds = 0.0;  ///< of its decode, predicted until it is known
    bool known = false;
  };
  [[nodiscard]] bool decodes_at(const request_state& request, double when_seconds) const;

  options options_;
  double decode_seconds_;
  bool learnt_ = false;
  decode_shape all_;
  decode_shape decoding_;
  std::unordered_map<core::worker_id, decode_shape> decoding_by_worker_;
  std::unordered_map<std::uint64_t, request_state> requests_;
};

}  // namespace yolk::scheduling
