#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "scheduling/errc.hpp"

namespace yolk::scheduling {

/// One prompt (or one chunk's end): n tokens, of which the first p need not be computed.
struct prefill_shape {
  std::uint32_t prompt_tokens = 0;  ///< n
  std::uint32_t cached_tokens = 0;  ///< p; what exceeds n counts as n
};

/// One decode step.
struct decode_shape {
  std::uint32_t sequences = 0;
  std::uint64_t context_tokens = 0;  ///< KV that the batch reads, over all its sequences
};

/// T(n, p) = base + a (n - p) + b (n^2 - p^2) + c p, in seconds: linear layers, attention, and bringing the
/// cached KV to the device. The form is that of Mooncake (FAST'25, section 5: regression over length and
/// cached length).
struct prefill_coefficients {
  double base_seconds = 0.0;
  double per_token = 0.0;
  double per_token_squared = 0.0;
  double per_cached_token = 0.0;
  friend bool operator==(const prefill_coefficients&, const prefill_coefficients&) = default;
};

/// T = base + s (sequences - 1) + k context, in seconds: weights, each further row, reading KV.
struct decode_coefficients {
  double base_seconds = 0.0;
  double per_sequence = 0.0;
  double per_context_token = 0.0;
  friend bool operator==(const decode_coefficients&, const decode_coefficients&) = default;
};

struct link_coefficients {
  double setup_seconds = 0.0;
  double bytes_per_second = 1e10;
  friend bool operator==(const link_coefficients&, const link_coefficients&) = default;
};

/// Between two places of KV. local: DRAM to device within one node; network: between nodes; site: between
/// data centres.
enum class link_path : std::uint8_t { local, network, site };
inline constexpr std::size_t link_path_count = 3;

struct latency_coefficients {
  prefill_coefficients prefill;
  decode_coefficients decode;
  std::array<link_coefficients, link_path_count> links;  ///< by link_path
  double kv_bytes_per_token = 1.0;
};

/// 8 x A800-80GB with 4 x 200 Gb/s RDMA, LLaMA3-70B in BF16: at most 4 % from the ten prefill points
/// that the Mooncake papers publish. 327,680 bytes of KV a token, 87 GB/s between nodes, 102 GB/s from DRAM.
/// The prefill's term per cached token contains bringing it from the node's DRAM.
latency_coefficients a800_llama3_70b();
/// A model that nobody has profiled: 1 ms a token, to be corrected by what is observed.
latency_coefficients unprofiled(double kv_bytes_per_token);

/// How long things take. A value; prediction is a pure function of it.
class latency_model {
 public:
  explicit latency_model(const latency_coefficients& coefficients) : coefficients_(coefficients) {}

  [[nodiscard]] double prefill_seconds(prefill_shape shape) const;
  /// One step; 0 for an empty batch.
  [[nodiscard]] double decode_seconds(decode_shape shape) const;
  /// `sharing`: transfers that use the link beside this one; each gets an equal share of it.
  [[nodiscard]] double transfer_seconds(double bytes, link_path path, std::uint32_t sharing = 0) const;
  [[nodiscard]] double kv_bytes(std::uint64_t token_count) const {
    return static_cast<double>(token_count) * coefficients_.kv_bytes_per_token;
  }
  [[nodiscard]] const latency_coefficients& coefficients() const { return coefficients_; }

 private:
  latency_coefficients coefficients_;
};

struct prefill_sample {
  prefill_shape shape;
  double seconds = 0.0;
};

struct decode_sample {
  decode_shape shape;
  double seconds = 0.0;
};

/// |predicted - observed| / observed over the samples.
struct fit_error {
  double mean = 0.0;
  double largest = 0.0;
};

template <class Coefficients>
struct fitted {
  Coefficients coefficients;
  fit_error error;
};

/// Least squares of the relative error (a second too much on a prompt of an hour is not a second too much on
/// a prompt of a second), coefficients not negative. Fails with too_few_samples for fewer samples than
/// coefficients, with bad_sample for a time that is not a positive finite number.
result<fitted<prefill_coefficients>> fit_prefill(std::span<const prefill_sample> samples);
result<fitted<decode_coefficients>> fit_decode(std::span<const decode_sample> samples);

struct correction_limits {
  double weight = 0.1;    ///< of a new observation, in (0, 1]
  double largest = 4.0;   ///< the factor stays within [1 / largest, largest]
  double outlier = 32.0;  ///< an observation off by more than this factor counts as off by this factor
};

/// Follows what a model does not know (clocks, neighbours, a first guess): the exponentially weighted
/// geometric mean of observed / predicted, bounded.
class online_correction {
 public:
  explicit online_correction(correction_limits limits = {}) : limits_(limits) {}

  /// `predicted` by the model, without this correction. Values that are not positive and finite are ignored.
  void observe(double predicted_seconds, double observed_seconds);
  /// Multiply the model's prediction by this.
  [[nodiscard]] double factor() const { return factor_; }
  /// Exponentially weighted mean of |factor * predicted - observed| / observed, each taken before it was
  /// learnt from.
  [[nodiscard]] double relative_error() const { return error_; }
  [[nodiscard]] std::uint64_t observations() const { return observations_; }

 private:
  correction_limits limits_;
  double log_factor_ = 0.0;
  double factor_ = 1.0;
  double error_ = 0.0;
  std::uint64_t observations_ = 0;
};

/// A model with its corrections: what the conductor asks and teaches.
class corrected_model {
 public:
  corrected_model(const latency_coefficients& coefficients, correction_limits limits)
      : model_(coefficients), prefill_(limits), decode_(limits), transfer_(limits) {}

  [[nodiscard]] double prefill_seconds(prefill_shape shape) const {
    return prefill_.factor() * model_.prefill_seconds(shape);
  }
  [[nodiscard]] double decode_seconds(decode_shape shape) const {
    return decode_.factor() * model_.decode_seconds(shape);
  }
  [[nodiscard]] double transfer_seconds(double bytes, link_path path, std::uint32_t sharing = 0) const {
    return transfer_.factor() * model_.transfer_seconds(bytes, path, sharing);
  }
  [[nodiscard]] double kv_bytes(std::uint64_t token_count) const { return model_.kv_bytes(token_count); }

  void observe_prefill(prefill_shape shape, double seconds) {
    prefill_.observe(model_.prefill_seconds(shape), seconds);
  }
  void observe_decode(decode_shape shape, double seconds) {
    decode_.observe(model_.decode_seconds(shape), seconds);
  }
  /// `predicted_seconds`: what transfer_seconds of the uncorrected model said.
  void observe_transfer(double predicted_seconds, double seconds) {
    transfer_.observe(predicted_seconds, seconds);
  }
  [[nodiscard]] const latency_model& model() const { return model_; }
  [[nodiscard]] const online_correction& prefill_correction() const { return prefill_; }
  [[nodiscard]] const online_correction& decode_correction() const { return decode_; }
  [[nodiscard]] const online_correction& transfer_correction() const { return transfer_; }

 private:
  latency_model model_;
  online_correction prefill_;
  online_correction decode_;
  online_correction transfer_;
};

}  // namespace yolk::scheduling
