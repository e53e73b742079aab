#include "model/rope_tables.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace yolk::model;

namespace {

model_config llama31() {
  model_config config;
  config.head_dim = 128;
  config.rope_base = 500000.0f;
  config.scaling = rope_scaling::llama3;
  config.scaling_factor = 8;
  config.low_frequency_factor = 1;
  config.high_frequency_factor = 4;
  config.original_context_length = 8192;
  config.context_length = 4;
  return config;
}

}  // namespace

TEST_CASE("llama3 scaling keeps short wavelengths, stretches long ones and passes over between them") {
  model_config plain = llama31();
  plain.scaling = rope_scaling::none;
  const std::vector<float> unscaled = rope_frequencies(plain);
  const std::vector<float> scaled = rope_frequencies(llama31());
  REQUIRE(scaled.size() == 64);
  CHECK(scaled[0] == 1.0f);
  CHECK(scaled[28] == unscaled[28]);                       // wavelength 1,957: below 8192 / 4
  CHECK(scaled[36] == doctest::Approx(unscaled[36] / 8));  // wavelength 10,096: above 8192
  for (std::size_t pair = 29; pair <= 34; ++pair) {        // between them
    CHECK(scaled[pair] < unscaled[pair]);
    CHECK(scaled[pair] > unscaled[pair] / 8);
    CHECK(scaled[pair] < scaled[pair - 1]);
  }
}

TEST_CASE("linear scaling divides every frequency") {
  model_config config = llama31();
  config.scaling = rope_scaling::none;
  const std::vector<float> plain = rope_frequencies(config);
  config.scaling = rope_scaling::linear;
  const std::vector<float> scaled = rope_frequencies(config);
  for (std::size_t pair = 0; pair < plain.size(); ++pair)
    CHECK(scaled[pair] == doctest::Approx(plain[pair] / 8).epsilon(1e-6));
}

TEST_CASE("the tables hold cosine and sine of position times frequency") {
  model_config config;
  config.head_dim = 4;
  config.rope_base = 100;
  config.context_length = 3;
  const rope_tables tables = make_rope_tables(config);
  REQUIRE(tables.cosine.size() == 6);
  CHECK(tables.cosine[0] == 1.0f);
  CHECK(tables.sine[1] == 0.0f);
  CHECK(tables.cosine[4] == doctest::Approx(std::cos(2.0)));
  CHECK(tables.sine[5] == doctest::Approx(std::sin(0.2)));
}
