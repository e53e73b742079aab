#include "kvcache/block_pool.hpp"

#include <doctest/doctest.h>

using namespace yolk;
using namespace yolk::kvcache;

TEST_CASE("blocks leave lowest index first, then most recently freed") {
  block_pool pool(3);
  CHECK(pool.allocate() == 0);
  CHECK(pool.allocate() == 1);
  CHECK(pool.release(0));
  CHECK(pool.release(1));
  CHECK(pool.allocate() == 1);
  CHECK(pool.allocate() == 0);
  CHECK(pool.allocate() == 2);
  CHECK_FALSE(pool.allocate().has_value());
}

TEST_CASE("a block is free only when its last reference goes") {
  block_pool pool(1);
  REQUIRE(pool.allocate() == 0);
  pool.add_reference(0);
  CHECK(pool.reference_count(0) == 2);
  CHECK_FALSE(pool.release(0));
  CHECK(pool.free_count() == 0);
  CHECK_FALSE(pool.allocate().has_value());
  CHECK(pool.release(0));
  CHECK(pool.free_count() == 1);
}

TEST_CASE("a pool without blocks gives none") {
  block_pool pool(0);
  CHECK(pool.block_count() == 0);
  CHECK_FALSE(pool.allocate().has_value());
}
