#include "messages/message.hpp"

#include <doctest/doctest.h>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <cstring>
#include <vector>

#include "core/random.hpp"
#include "messages/generation.capnp.h"

using namespace yolk;

namespace {

using generate_request = messages::message<messages::schema::GenerateRequest>;

generate_request request_of(std::uint32_t token_count, unsigned first_words = 128) {
  return generate_request::build(
      [&](messages::schema::GenerateRequest::Builder builder) {
        builder.initHeader().setLegId(77);
        auto bytes = builder.initTokens(token_count * sizeof(std::uint32_t));
        for (std::uint32_t i = 0; i < token_count; ++i)
          std::memcpy(bytes.begin() + i * sizeof i, &i, sizeof i);
        auto seeds = builder.initSampling().initSeeds(3);
        for (unsigned i = 0; i < 3; ++i) seeds.set(i, 1000 + i);
        builder.setPromptLength(token_count);
      },
      first_words);
}

std::vector<char> wire_of(generate_request sent) {
  std::vector<char> bytes;
  caf::binary_serializer sink(nullptr, bytes);
  REQUIRE(!inspect(sink, sent));
  return bytes;
}

caf::error read(const std::vector<char>& bytes, generate_request& received) {
  caf::binary_deserializer source(nullptr, bytes);
  return inspect(source, received);
}

/// Reads every field that a handler would; the sum keeps it from being left out.
std::uint64_t read_all(const generate_request& message) {
  const auto view = message.read();
  std::uint64_t sum = view->getHeader().getLegId() + view->getPromptLength();
  for (auto byte : view->getTokens()) sum += byte;
  for (auto seed : view->getSampling().getSeeds()) sum += seed;
  for (auto bias : view->getSampling().getLogitBias()) sum += bias.getToken();
  return sum;
}

}  // namespace

TEST_CASE("copies of a message are the same words") {
  const auto one = request_of(10);
  const auto other = one;
  CHECK(one.identity() == other.identity());
  CHECK(one.identity() != request_of(10).identity());
  CHECK(!generate_request());
}

TEST_CASE("a message written for the wire is read back, whatever segments it was built in") {
  for (const unsigned first_words : {1u, 4u, 128u, 8192u}) {
    CAPTURE(first_words);
    const auto sent = request_of(5000, first_words);
    generate_request received;
    REQUIRE(!read(wire_of(sent), received));
    CHECK(received.read()->getHeader().getLegId() == 77);
    CHECK(received.read()->getTokens() == sent.read()->getTokens());
    CHECK(read_all(received) == read_all(sent));
  }
}

TEST_CASE("a message that was never built stays none on the wire") {
  auto received = request_of(1);
  REQUIRE(!read(wire_of(generate_request()), received));
  CHECK(!received);
}

TEST_CASE("bytes that end early are refused, wherever they end") {
  const auto whole = wire_of(request_of(40));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CAPTURE(length);
    generate_request received;
    CHECK(read({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}, received));
  }
}

TEST_CASE("garbled bytes are refused, or fail their reader, and nothing else happens") {
  const auto whole = wire_of(request_of(40, 4));
  const std::uint64_t seed = 20;
  CAPTURE(seed);
  core::random_source random(seed);
  int refused = 0, failed = 0;
  for (int round = 0; round < 5000; ++round) {
    auto bytes = whole;
    for (auto changes = 1 + random.below(4); changes > 0; --changes)
      bytes[random.below(bytes.size())] = static_cast<char>(random());
    generate_request received;
    if (read(bytes, received)) {
      ++refused;
      continue;
    }
    if (!received) continue;
    try {
      (void)read_all(received);
    } catch (const kj::Exception&) {
      ++failed;
    }
  }
  CHECK(refused > 0);
  CHECK(failed > 0);
}

TEST_CASE("more than a message may have is neither sent nor taken") {
  const auto large = request_of(static_cast<std::uint32_t>(messages::max_message_bytes / 4));
  std::vector<char> bytes;
  caf::binary_serializer sink(nullptr, bytes);
  auto sent = large;
  CHECK(inspect(sink, sent));
  CHECK(bytes.size() < 100);
  const auto adopted = messages::segments::adopt(
      kj::heapArray<capnp::word>(messages::max_message_bytes / sizeof(capnp::word) + 1));
  REQUIRE(!adopted);
  CHECK(adopted.error().code == messages::errc::too_large);
}
