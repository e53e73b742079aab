#include "core/random.hpp"

namespace yolk::core {

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t counter) {
  std::array<std::uint32_t, 4> x = {static_cast<std::uint32_t>(counter),
                                    static_cast<std::uint32_t>(counter >> 32), 0, 0};
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * x[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * x[2];
    x = {static_cast<std::uint32_t>(product1 >> 32) ^ x[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ x[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

float uniform_float(std::uint64_t seed, std::uint64_t counter) {
  return static_cast<float>(philox(seed, counter)[0] >> 8) * 0x1p-24f;
}

random_source::result_type random_source::operator()() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace yolk::core
