#include "kvcache/block_key.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

using namespace yolk;
using namespace yolk::kvcache;

namespace {

std::vector<core::token_id> counting(std::size_t count, core::token_id first = 0) {
  std::vector<core::token_id> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

const key_root_fields fields{.tenant = "tenant-a", .salt = "salt", .model = "llama-test", .kv_dtype = "bf16"};

}  // namespace

TEST_CASE("keys are the published ones in every process") {
  // From xxhsum -H2 over the bytes that docs/kvcache.md describes: another program, so that an encoding that
  // changes, a random seed or another byte order shows.
  CHECK(to_string(make_root({})) == "158f8cff196074fd5bcb3dce78257448");
  const block_key root = make_root(fields);
  CHECK(to_string(root) == "bab16b6565010126c9badec6fdb08f0f");
  const block_key first = chain(root, counting(16));
  CHECK(to_string(first) == "275e0d447aac5eba1928e69a024f863f");
  CHECK(to_string(chain(first, counting(16, 100'000))) == "980314d156d8e35d1dc7f37976c2e27b");
  // Longer blocks take other ways through the hash (and the last one the streaming state): the same function.
  CHECK(to_string(chain(root, counting(64))) == "99f49ef3237213355143a1bd47336b08");
  CHECK(to_string(chain(root, counting(400))) == "b3b36396e1c4999789d6f1dbaeae1ec7");
}

TEST_CASE("every field of the root separates") {
  std::set<block_key> roots;
  const auto add = [&](auto change) {
    key_root_fields changed = fields;
    change(changed);
    CHECK(roots.insert(make_root(changed)).second);
  };
  add([](auto&) {});
  add([](auto& f) { f.tenant = "tenant-b"; });
  add([](auto& f) { f.salt = ""; });
  add([](auto& f) { f.model = "llama-tesu"; });
  add([](auto& f) { f.kv_dtype = "fp8"; });
  add([](auto& f) { f.adapter = "x"; });
  add([](auto& f) { f.format_version = 2; });
  add([](auto& f) { f.block_tokens = 32; });
  // The same bytes cut elsewhere are other fields.
  add([](auto& f) { f.tenant = "tenant-as", f.salt = "alt"; });
  add([](auto& f) { f.tenant = "", f.salt = "tenant-asalt"; });
}

TEST_CASE("a key depends on every token before it and on none after") {
  const block_key root = make_root(fields);
  auto tokens = counting(48);
  const auto keys = keys_of(root, tokens, 16);
  REQUIRE(keys.size() == 3);
  CHECK(keys[1] == chain(chain(root, std::span(tokens).first(16)), std::span(tokens).subspan(16, 16)));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    CAPTURE(i);
    auto changed = tokens;
    changed[i] ^= 1u << (i % 32);
    const auto other = keys_of(root, changed, 16);
    for (std::size_t block = 0; block < 3; ++block) CHECK((other[block] == keys[block]) == (block < i / 16));
  }
}

TEST_CASE("a trailing partial block has no key") {
  const block_key root = make_root(fields);
  CHECK(keys_of(root, counting(15), 16).empty());
  CHECK(keys_of(root, counting(16), 16).size() == 1);
  CHECK(keys_of(root, counting(47), 16) == keys_of(root, counting(32), 16));
  CHECK(keys_of(root, {}, 16).empty());
}
