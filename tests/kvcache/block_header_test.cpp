#include "kvcache/block_header.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/random.hpp"

using namespace yolk;
using namespace yolk::kvcache;

namespace {

/// A stored block whose header is right, and how to check it. Tests spoil one thing at a time.
struct stored_block {
  segment_layout layout{
      .layer_count = 3, .kv_head_count = 2, .head_dim = 8, .block_tokens = 4, .element_bytes = 2};
  block_key root = make_root({.tenant = "t", .model = "m", .kv_dtype = "bf16", .block_tokens = 4});
  std::vector<core::token_id> tokens{5, 6, 7, 8};
  block_key parent = chain(root, std::vector<core::token_id>{1, 2, 3, 4});
  std::vector<std::byte> payload;
  block_header header;

  stored_block() {
    core::random_source random(11);
    payload.resize(layout.block_bytes());
    for (auto& byte : payload) byte = static_cast<std::byte>(random());
    header = {.key = chain(parent, tokens),
              .parent = parent,
              .tokens = tokens,
              .first_position = 4,
              .layer_checksums = layer_checksums(payload, layout)};
  }

  [[nodiscard]] result<core::void_t> verify() const {
    return verify_block(header, parent, tokens, 4, payload, layout);
  }

  void check_fails(errc code, const std::string& part) const {
    const auto verified = verify();
    REQUIRE_FALSE(verified);
    CHECK(verified.error().code == code);
    CHECK_MESSAGE(verified.error().message.find(part) != std::string::npos, verified.error().message);
    CHECK(verified.error().message.find("block " + to_string(header.key)) == 0);
  }
};

}  // namespace

TEST_CASE("a block that is what its header says passes") {
  CHECK(stored_block().verify().has_value());
}

TEST_CASE("the checksum is XXH3-64 with seed 0") {
  CHECK(checksum({}) == 0x2d06800538d394c2u);  // the published value of no bytes
}

TEST_CASE("one flipped bit anywhere in the payload is caught, and its layer named") {
  stored_block block;
  for (std::size_t bit = 0; bit < block.payload.size() * 8; ++bit) {
    auto& byte = block.payload[bit / 8];
    byte ^= std::byte{1} << (bit % 8);
    const auto verified = block.verify();
    REQUIRE_FALSE(verified);
    const std::size_t layer = bit / 8 / block.layout.layer_bytes();
    REQUIRE(verified.error().message.find("payload of layer " + std::to_string(layer) + " ") !=
            std::string::npos);
    byte ^= std::byte{1} << (bit % 8);
  }
  CHECK(block.verify().has_value());
}

TEST_CASE("layers that were swapped are caught although each is intact") {
  stored_block block;
  const auto layer_bytes = static_cast<std::ptrdiff_t>(block.layout.layer_bytes());
  std::swap_ranges(block.payload.begin(), block.payload.begin() + layer_bytes,
                   block.payload.begin() + layer_bytes);
  block.check_fails(errc::verification_failed, "payload of layer 0 does not match its checksum");
}

TEST_CASE("a payload that is too short or too long is caught") {
  stored_block block;
  block.payload.pop_back();
  block.check_fails(errc::verification_failed, "payload size is 767, expected 768");
  block.payload.resize(769);
  block.check_fails(errc::verification_failed, "payload size is 769, expected 768");
}

TEST_CASE("another format version is refused") {
  stored_block block;
  block.header.format_version = 2;
  block.check_fails(errc::invalid_header, "format version is 2, expected 1");
}

TEST_CASE("an unknown codec is refused") {
  stored_block block;
  block.header.codec = static_cast<segment_codec>(3);
  block.check_fails(errc::invalid_header, "codec is 3");
}

TEST_CASE("a wrong number of tokens is refused") {
  stored_block block;
  block.header.tokens.pop_back();
  block.check_fails(errc::invalid_header, "token count is 3, expected 4");
}

TEST_CASE("a wrong number of layers is refused") {
  stored_block block;
  block.header.layer_checksums.push_back(0);
  block.check_fails(errc::invalid_header, "layer count is 4, expected 3");
  block.header.layer_checksums.clear();
  block.check_fails(errc::invalid_header, "layer count is 0, expected 3");
}

TEST_CASE("a block of other tokens is refused, even with a key and parent that fit") {
  stored_block block;
  block.header.tokens[2] = 99;
  block.check_fails(errc::verification_failed, "its tokens are not the prompt's");
  block.header.key = chain(block.parent, block.header.tokens);
  block.check_fails(errc::verification_failed, "its tokens are not the prompt's");
}

TEST_CASE("a block that follows another prefix is refused") {
  stored_block block;
  block.header.parent = block.root;
  block.check_fails(errc::verification_failed, "parent is " + to_string(block.root));
}

TEST_CASE("a key that does not follow from parent and tokens is refused") {
  stored_block block;
  block.header.key.high ^= 1;
  block.check_fails(errc::verification_failed, "its parent and tokens give the key");
}

TEST_CASE("a block from another position is refused") {
  stored_block block;
  block.header.first_position = 8;
  block.check_fails(errc::verification_failed, "first position is 8, expected 4");
}
