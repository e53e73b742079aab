#include "core/result.hpp"

#include <doctest/doctest.h>

#include <memory>

using namespace yolk::core;

namespace {
enum class errc { broken };
result<std::unique_ptr<int>, errc> make(int value) {
  if (value < 0) return failure<errc>{errc::broken, "value: -1 is below 0"};
  return std::make_unique<int>(value);
}
}  // namespace

TEST_CASE("a result holds a value or says why not") {
  auto good = make(3);
  REQUIRE(good);
  CHECK(**good == 3);
  auto bad = make(-1);
  REQUIRE_FALSE(bad);
  CHECK(bad.error().code == errc::broken);
  CHECK(bad.error().message == "value: -1 is below 0");
}
