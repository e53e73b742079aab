#include "kvcache/sequence_blocks.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {
constexpr std::uint32_t block_tokens = 4;
const block_key root = make_root({.model = "m", .block_tokens = block_tokens});

std::vector<core::token_id> counting(std::size_t count) {
  std::vector<core::token_id> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = static_cast<core::token_id>(i);
  return tokens;
}
}  // namespace

TEST_CASE("a sequence takes a block whenever its position crosses a border") {
  prefix_cache cache(8, block_tokens);
  sequence_blocks sequence(cache);
  CHECK(sequence.blocks_needed(0) == 0);
  CHECK(sequence.blocks_needed(9) == 3);
  REQUIRE(sequence.append(3));
  CHECK(sequence.blocks().size() == 1);
  CHECK(sequence.blocks_needed(1) == 0);
  REQUIRE(sequence.append(1));
  CHECK(sequence.full_block_count() == 1);
  CHECK(sequence.blocks_needed(1) == 1);
  REQUIRE(sequence.append(1));
  CHECK(sequence.blocks().size() == 2);
  CHECK(sequence.token_count() == 5);
  sequence.release();
  CHECK(sequence.blocks().empty());
  CHECK(cache.free_count() == 8);
}

TEST_CASE("an append that finds no room changes nothing") {
  prefix_cache cache(2, block_tokens);
  sequence_blocks sequence(cache);
  REQUIRE(sequence.append(6));
  CHECK_FALSE(sequence.append(3).has_value());
  CHECK(sequence.token_count() == 6);
  CHECK(sequence.blocks().size() == 2);
  CHECK(sequence.append(2).has_value());
  sequence_blocks fork = sequence.fork();
  CHECK_FALSE(fork.append(1).has_value());
  CHECK(fork.token_count() == 8);
}

TEST_CASE("a sequence starts from a cached prefix and publishes its full blocks") {
  prefix_cache cache(8, block_tokens);
  const auto tokens = counting(10);
  {
    sequence_blocks first(cache);
    REQUIRE(first.append(10));
    CHECK(first.publish(root, tokens) == 2);
  }
  CHECK(cache.audit() == "");
  sequence_blocks second(cache);
  second.adopt(cache.match(root, tokens, tokens.size() - 1));
  CHECK(second.token_count() == 8);
  CHECK(second.full_block_count() == 2);
  REQUIRE(second.append(2));
  CHECK(second.publish(root, tokens) == 0);  // nothing new
  second.release();
  CHECK(cache.audit() == "");
  CHECK(cache.cached_count() == 2);
}

TEST_CASE("a fork shares all blocks, and the first to append copies the partial one") {
  prefix_cache cache(8, block_tokens);
  sequence_blocks sequence(cache);
  REQUIRE(sequence.append(6));
  const std::vector<core::block_index> before(sequence.blocks().begin(), sequence.blocks().end());
  sequence_blocks fork = sequence.fork();
  CHECK(std::ranges::equal(fork.blocks(), before));
  CHECK(cache.free_count() == 6);
  CHECK(fork.blocks_needed(1) == 1);
  const auto step = fork.append(1);
  REQUIRE(step);
  REQUIRE(step->copy);
  CHECK(step->copy->source == before[1]);
  CHECK(step->copy->target == fork.blocks()[1]);
  CHECK(fork.blocks()[0] == before[0]);
  CHECK(fork.blocks()[1] != before[1]);
  fork.copied();
  // The other one is alone with its partial block now and writes in place.
  const auto own = sequence.append(1);
  REQUIRE(own);
  CHECK_FALSE(own->copy);
  CHECK(std::ranges::equal(sequence.blocks(), before));
}

TEST_CASE("a fork at a block border copies nothing") {
  prefix_cache cache(8, block_tokens);
  sequence_blocks sequence(cache);
  REQUIRE(sequence.append(8));
  sequence_blocks fork = sequence.fork();
  CHECK(fork.blocks_needed(1) == 1);
  const auto step = fork.append(1);
  REQUIRE(step);
  CHECK_FALSE(step->copy);
}

TEST_CASE("a moved sequence leaves nothing behind and assigning over one gives its blocks back") {
  prefix_cache cache(8, block_tokens);
  sequence_blocks first(cache);
  sequence_blocks second(cache);
  REQUIRE(first.append(5));
  REQUIRE(second.append(9));
  second = std::move(first);
  CHECK(second.token_count() == 5);
  CHECK(cache.free_count() == 6);
  sequence_blocks third(std::move(second));
  third.release();
  CHECK(cache.free_count() == 8);
}

TEST_CASE("forks never write into a shared block, and each reads what it wrote") {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u, 5u}) {
    MESSAGE("seed ", seed);
    CAPTURE(seed);
    core::random_source random(seed);
    prefix_cache cache(24, block_tokens);
    std::vector<std::uint64_t> memory(24 * block_tokens, 0);
    struct member {
      sequence_blocks blocks;
      std::vector<std::uint64_t> written;  // what this sequence believes its KV to be
      std::optional<block_copy> pending;
    };
    std::vector<member> members;
    std::uint64_t copies = 0;
    const auto address = [](const member& m, std::size_t position) {
      return std::size_t{m.blocks.blocks()[position / block_tokens]} * block_tokens + position % block_tokens;
    };
    for (int i = 0; i < 4000; ++i) {
      CAPTURE(i);
      const std::uint64_t action = random.below(10);
      if (members.empty() || (action == 0 && members.size() < 6)) {
        members.push_back({sequence_blocks(cache), {}, {}});
        continue;
      }
      member& chosen = members[random.below(members.size())];
      if (action == 1 && members.size() < 6) {
        members.push_back({chosen.blocks.fork(), chosen.written, {}});
      } else if (action == 2) {
        std::swap(chosen, members.back());
        members.pop_back();  // the sequence ends
      } else {
        const auto count = static_cast<std::uint32_t>(random.below(4));
        const auto step = chosen.blocks.append(count);
        if (!step) continue;
        if (step->copy) {
          ++copies;
          // The source survives until the copy is done, even if all its other owners end now.
          CHECK(cache.reference_count(step->copy->source) >= 1);
          const auto from = memory.begin() + step->copy->source * block_tokens;
          std::copy(from, from + block_tokens, memory.begin() + step->copy->target * block_tokens);
          chosen.blocks.copied();
        }
        for (std::uint32_t n = 0; n < count; ++n) {
          const std::size_t position = chosen.written.size();
          REQUIRE(cache.reference_count(chosen.blocks.blocks()[position / block_tokens]) == 1);
          chosen.written.push_back(random());
          memory[address(chosen, position)] = chosen.written.back();
        }
      }
      for (const member& m : members)
        for (std::size_t position = 0; position < m.written.size(); ++position)
          REQUIRE(memory[address(m, position)] == m.written[position]);
    }
    CHECK(copies > 50);
    members.clear();
    CHECK(cache.free_count() == 24);
    CHECK(cache.audit() == "");
  }
}

TEST_CASE("the source of a copy is not reused before the copy is done") {
  prefix_cache cache(3, block_tokens);
  sequence_blocks first(cache);
  REQUIRE(first.append(2));
  sequence_blocks second = first.fork();
  const auto step = second.append(1);
  REQUIRE(step);
  REQUIRE(step->copy);
  first.release();  // cancelled while the copy is on its way
  CHECK(cache.reference_count(step->copy->source) == 1);
  CHECK(cache.free_count() == 1);
  second.copied();
  CHECK(cache.free_count() == 2);
  second.release();
  CHECK(cache.audit() == "");
}
