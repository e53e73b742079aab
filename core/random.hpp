#pragma once

#include <array>
#include <cstdint>

namespace yolk::core {

/// Counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as 1, 2,
/// 3", SC'11): the value is a pure function of (seed, counter), so a resumed or re-placed sequence draws what
/// it would have drawn.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t counter);

/// Uniform in [0, 1) with 24 bits, from philox(seed, counter).
float uniform_float(std::uint64_t seed, std::uint64_t counter);

/// A small sequential generator (SplitMix64) for tests and jitter. Satisfies uniform_random_bit_generator.
class random_source {
 public:
  using result_type = std::uint64_t;
  explicit random_source(std::uint64_t seed) : state_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  result_type operator()();
  /// Uniform in [0, bound); bound > 0.
  std::uint64_t below(std::uint64_t bound) { return (*this)() % bound; }
  /// Uniform in (0, 1), with 53 bits: neither end, so that its logarithm is finite.
  double open_unit() { return (static_cast<double>((*this)() >> 11) + 0.5) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace yolk::core
