#include "transport/transfer_engine.hpp"

#include <algorithm>

#include "tests/transport/support.hpp"

namespace yolk::transport {
namespace {

using namespace testing;

TEST_CASE("a put and a get between two engines move the bytes") {
  for (const std::string transports : {"^posix", "tcp"}) {
    CAPTURE(transports);
    const auto a = start_engine(1 << 20, 1, transports);
    const auto b = start_engine(1 << 20, 2, transports);
    fill_random(a->region(), 1);
    const auto sent = run_put(*a, b->descriptor(), {{0, 4096, 65536}});
    REQUIRE_MESSAGE(sent.has_value(), message_of(sent));
    CHECK(sent->bytes == 65536);
    CHECK(std::equal(a->region().begin(), a->region().begin() + 65536, b->region().begin() + 4096));

    fill_random(b->region(), 2);
    const auto fetched = run_get(*a, b->descriptor(), {{512, 100, 300'001}});
    REQUIRE_MESSAGE(fetched.has_value(), message_of(fetched));
    CHECK(std::equal(a->region().begin() + 512, a->region().begin() + 512 + 300'001,
                     b->region().begin() + 100));
  }
}

TEST_CASE("an engine is its own peer") {
  const auto engine = start_engine(1 << 20, 1);
  fill_random(engine->region(), 3);
  const auto sent = run_put(*engine, engine->descriptor(), {{0, 1 << 19, 100'000}});
  REQUIRE_MESSAGE(sent.has_value(), message_of(sent));
  CHECK(std::equal(engine->region().begin(), engine->region().begin() + 100'000,
                   engine->region().begin() + (1 << 19)));
}

}  // namespace
}  // namespace yolk::transport
