#include "transport/descriptor_seal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "core/random.hpp"

namespace yolk::transport {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, core::random_source& random) {
  std::vector<std::byte> out(count);
  for (auto& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

region_descriptor sealed_example() {
  core::random_source random(7);
  const auto key = random_bytes(20, random);
  const auto address = random_bytes(150, random);
  return seal_descriptor(core::incarnation{9}, 0x7f0000001000, 1 << 20, {1234567, key, address});
}

bool is_refused(const region_descriptor& descriptor) {
  const auto opened = open_descriptor(descriptor);
  return !opened && opened.error().code == errc::peer_unreachable &&
         opened.error().message.find("malformed descriptor") != std::string::npos;
}

TEST_CASE("what was sealed comes out again") {
  core::random_source random(7);
  const auto key = random_bytes(20, random);
  const auto address = random_bytes(150, random);
  const auto descriptor = sealed_example();
  const auto opened = open_descriptor(descriptor);
  REQUIRE(opened.has_value());
  CHECK(opened->nonce == 1234567);
  CHECK(std::ranges::equal(opened->remote_key, key));
  CHECK(std::ranges::equal(opened->worker_address, address));
}

TEST_CASE("any flipped bit of a descriptor is noticed") {
  const auto sound = sealed_example();
  for (auto part : {&region_descriptor::remote_key, &region_descriptor::worker_address}) {
    for (std::size_t bit = 0; bit < (sound.*part).size() * 8; ++bit) {
      auto flipped = sound;
      (flipped.*part)[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
      CAPTURE(bit);
      CHECK(is_refused(flipped));
    }
  }
  for (int bit = 0; bit < 64; ++bit) {
    auto other_owner = sound, other_base = sound, other_length = sound;
    other_owner.owner.value ^= std::uint64_t{1} << bit;
    other_base.base_address ^= std::uint64_t{1} << bit;
    other_length.length_bytes ^= std::uint64_t{1} << bit;
    CHECK(is_refused(other_owner));
    CHECK(is_refused(other_base));
    CHECK(is_refused(other_length));
  }
}

TEST_CASE("truncated, extended and empty byte strings are refused") {
  const auto sound = sealed_example();
  for (auto part : {&region_descriptor::remote_key, &region_descriptor::worker_address}) {
    for (std::size_t kept = 0; kept < (sound.*part).size(); ++kept) {
      auto truncated = sound;
      (truncated.*part).resize(kept);
      CAPTURE(kept);
      CHECK(is_refused(truncated));
    }
    auto extended = sound;
    (extended.*part).push_back(std::byte{0});
    CHECK(is_refused(extended));
    (extended.*part).resize(max_key_bytes + 1000);
    CHECK(is_refused(extended));
  }
}

TEST_CASE("a key and an address that were not sealed together are refused") {
  auto mixed = sealed_example();
  core::random_source random(8);
  const auto key = random_bytes(20, random);
  const auto address = random_bytes(150, random);
  mixed.worker_address =
      seal_descriptor(core::incarnation{9}, 0x7f0000001000, 1 << 20, {1234567, key, address}).worker_address;
  CHECK(is_refused(mixed));
}

TEST_CASE("random bytes are refused") {
  constexpr std::uint64_t seed = 4711;
  CAPTURE(seed);
  core::random_source random(seed);
  for (int round = 0; round < 2000; ++round) {
    region_descriptor garbage;
    garbage.owner.value = random();
    garbage.base_address = random();
    garbage.length_bytes = random();
    garbage.remote_key = random_bytes(random.below(200), random);
    garbage.worker_address = random_bytes(random.below(400), random);
    CHECK(is_refused(garbage));
  }
}

}  // namespace
}  // namespace yolk::transport
