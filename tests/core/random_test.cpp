#include "core/random.hpp"

#include <doctest/doctest.h>

using namespace yolk::core;

TEST_CASE("philox gives the published vectors") {
  // Random123's known-answer file, philox4x32-10, counter and key zero.
  const auto zero = philox(0, 0);
  CHECK(zero[0] == 0x6627e8d5);
  CHECK(zero[1] == 0xe169c58d);
  CHECK(zero[2] == 0xbc57ac4c);
  CHECK(zero[3] == 0x9b00dbd8);
}

TEST_CASE("uniform_float depends on seed and counter alone and stays below one") {
  double sum = 0;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const float value = uniform_float(7, i);
    CHECK(value == uniform_float(7, i));
    CHECK(value >= 0.0f);
    CHECK(value < 1.0f);
    sum += value;
  }
  CHECK(sum / 4096 == doctest::Approx(0.5).epsilon(0.05));
  CHECK(uniform_float(7, 1) != uniform_float(8, 1));
}
