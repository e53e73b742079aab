#include "model/safetensors.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/random.hpp"
#include "tests/model/model_files.hpp"

using namespace yolk::model;
using namespace yolk::model::testing;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string good_file() {
  return safetensors_bytes({{"a.weight", {"F32", {2, 3}, std::string(24, 'a')}},
                            {"b.weight", {"BF16", {4}, std::string(8, 'b')}},
                            {"c.index", {"I64", {}, std::string(8, 'c')}}});
}

/// Bytes of files that this process has in memory right now.
std::size_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssFile:")) return std::stoul(line.substr(8)) * 1024;
  return 0;
}

}  // namespace

TEST_CASE("a safetensors header gives every tensor's type, shape and place") {
  const std::string file = good_file();
  const auto entries = parse_safetensors(bytes_of(file), "good");
  REQUIRE(entries.has_value());
  REQUIRE(entries->size() == 3);
  const tensor_entry& a = (*entries)[0];
  CHECK(a.name == "a.weight");
  CHECK(a.type == yolk::gpu::dtype::f32);
  CHECK(a.shape == std::vector<std::uint64_t>{2, 3});
  CHECK(a.element_count == 6);
  CHECK(file.substr(a.offset_bytes, a.size_bytes) == std::string(24, 'a'));
  const tensor_entry& c = (*entries)[2];
  CHECK_FALSE(c.type.has_value());
  CHECK(c.element_count == 1);
  CHECK(file.substr(c.offset_bytes, c.size_bytes) == std::string(8, 'c'));
}

TEST_CASE("a torn or lying safetensors file gives one error that names file and tensor") {
  struct mutation {
    const char* header;
    const char* names;  ///< what the message must contain besides the file
  };
  const std::string data(24, 'x');
  for (
      const mutation& each : {
          mutation{R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[0,25]}})",
                   "\"t\": data_offsets [0,25] lie beyond"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[4,24]}})",
                   "\"t\": data_offsets [4,24] hold 20 bytes"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[24,0]}})", "end before they begin"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[-24,0]}})",
                   "\"t\": data_offsets is not"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[0]}})", "\"t\": data_offsets is not"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,3]}})", "\"t\": data_offsets is not"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[0,18446744073709551616]}})",
                   "data_offsets is not"},
          mutation{R"({"t":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                   "\"t\": shape"},
          mutation{R"({"t":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})",
                   "overflows"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,-3],"data_offsets":[0,24]}})", "\"t\": shape has -3"},
          mutation{R"({"t":{"dtype":"F32","shape":[2.5],"data_offsets":[0,24]}})", "\"t\": shape has 2.5"},
          mutation{R"({"t":{"dtype":"F32","shape":6,"data_offsets":[0,24]}})", "\"t\": shape is not"},
          mutation{R"({"t":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
                   "shape is not"},
          mutation{R"({"t":{"dtype":"Q4","shape":[2,3],"data_offsets":[0,24]}})",
                   "\"t\": unknown dtype \"Q4\""},
          mutation{R"({"t":{"dtype":7,"shape":[2,3],"data_offsets":[0,24]}})", "\"t\": dtype is not"},
          mutation{R"({"t":[]})", "\"t\": its declaration"},
          mutation{
              R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"u":{"dtype":"F32","shape":[4],"data_offsets":[8,24]}})",
              "\"u\": overlaps tensor \"t\""},
          mutation{
              R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
              "\"t\" occurs twice"},
          mutation{R"({"t":{"dtype":"F32","shape":[[[[1]]]],"data_offsets":[0,4]}})", "nested deeper"},
          mutation{R"({"t":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})", "not JSON"},
          mutation{"[]", "not a JSON object"},
          mutation{"", "not JSON"},
          mutation{"\xff\xfe", "not JSON"},
      }) {
    CAPTURE(each.header);
    const std::string file = safetensors_bytes(each.header, data);
    const auto entries = parse_safetensors(bytes_of(file), "some/model.safetensors");
    REQUIRE_FALSE(entries.has_value());
    CHECK(entries.error().code == errc::malformed);
    CAPTURE(entries.error().message);
    CHECK(entries.error().message.starts_with("some/model.safetensors: "));
    CHECK(contains(entries.error().message, each.names));
    CHECK(entries.error().message.size() < 400);
  }
}

TEST_CASE("a header length beyond the file or above the limit is refused before anything is read") {
  for (const std::uint64_t length :
       {std::uint64_t{57}, std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{100u << 20} + 1}) {
    std::string file = safetensors_bytes("{}", std::string(54, ' '));
    std::memcpy(file.data(), &length, sizeof length);
    const auto entries = parse_safetensors(bytes_of(file), "f");
    REQUIRE_FALSE(entries.has_value());
    CHECK(contains(entries.error().message, "header length " + std::to_string(length)));
  }
  for (std::size_t size = 0; size < 8; ++size)
    CHECK_FALSE(parse_safetensors(bytes_of(std::string(size, '\0')), "f").has_value());
}

TEST_CASE("deep nesting is an error, not a stack overflow") {
  const std::string deep = "{\"t\":" + std::string(2'000'000, '[');
  const auto entries = parse_safetensors(bytes_of(safetensors_bytes(deep, "")), "f");
  REQUIRE_FALSE(entries.has_value());
  CHECK(contains(entries.error().message, "nested deeper"));
}

TEST_CASE("a file cut at any place is an error or holds only what is whole") {
  const std::string file = good_file();
  for (std::size_t size = 0; size < file.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(parse_safetensors(bytes_of(file.substr(0, size)), "f").has_value());
  }
}

TEST_CASE("no single changed byte of a header makes a tensor reach beyond the file") {
  const std::uint64_t seed = 31;
  MESSAGE("seed ", seed);
  yolk::core::random_source random(seed);
  const std::string file = good_file();
  std::size_t accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string changed = file;
    changed[random.below(file.size() - 40)] = static_cast<char>(random.below(256));
    const auto entries = parse_safetensors(bytes_of(changed), "f");
    if (!entries) continue;
    ++accepted;
    for (const tensor_entry& entry : *entries) {
      CHECK(entry.offset_bytes <= changed.size());
      CHECK(entry.size_bytes <= changed.size() - entry.offset_bytes);
    }
  }
  CHECK(accepted > 0);
}

TEST_CASE("one file is read as it is; shape, type and absence are checked against the wish") {
  const temporary_folder folder;
  write_file(folder.path() / "model.safetensors", good_file());
  const auto set = tensor_set::open(folder.path());
  REQUIRE(set.has_value());
  const std::uint64_t shape[] = {2, 3};
  const auto tensor = set->find("a.weight", shape);
  REQUIRE(tensor.has_value());
  CHECK((*tensor)->bytes().size() == 24);
  CHECK(std::to_integer<char>((*tensor)->bytes()[0]) == 'a');
  (*tensor)->file->prefetch((*tensor)->bytes());
  (*tensor)->file->release((*tensor)->bytes());
  CHECK(std::to_integer<char>((*tensor)->bytes()[23]) == 'a');  // released, not lost

  const std::uint64_t turned[] = {3, 2};
  const auto wrong = set->find("a.weight", turned);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().code == errc::inconsistent);
  CHECK(contains(wrong.error().message, "model.safetensors: tensor \"a.weight\": shape [2, 3]"));
  const auto missing = set->find("z.weight", shape);
  REQUIRE_FALSE(missing.has_value());
  CHECK(contains(missing.error().message, "model.safetensors: tensor \"z.weight\": is missing"));
  const auto integers = set->find("c.index", {});
  REQUIRE_FALSE(integers.has_value());
  CHECK(integers.error().code == errc::unsupported);
}

TEST_CASE("a released tensor's pages leave this process's memory, and come back when read again") {
  constexpr std::size_t size = 32u << 20;
  const temporary_folder folder;
  write_file(folder.path() / "model.safetensors",
             safetensors_bytes({{"big", {"F32", {size / 4}, std::string(size, 'b')}}}));
  const auto set = tensor_set::open(folder.path());
  REQUIRE(set.has_value());
  const std::uint64_t shape[] = {size / 4};
  const stored_tensor* big = *set->find("big", shape);
  const auto read_all = [&] {
    std::size_t sum = 0;
    for (const std::byte each : big->bytes()) sum += std::to_integer<std::size_t>(each);
    return sum;
  };
  const std::size_t before = resident_file_bytes();
  CHECK(read_all() == size * 'b');
  CHECK(resident_file_bytes() >= before + size / 4 * 3);  // the kernel counts in batches
  big->file->release(big->bytes());
  CHECK(resident_file_bytes() < before + size / 8);
  CHECK(read_all() == size * 'b');
}

TEST_CASE("shards are read through the index; an index that lies is refused") {
  const temporary_folder folder;
  const auto index = folder.path() / "model.safetensors.index.json";
  write_file(folder.path() / "one.safetensors",
             safetensors_bytes({{"a", {"F32", {1}, "1234"}}, {"unused", {"F32", {1}, "0000"}}}));
  write_file(folder.path() / "two.safetensors", safetensors_bytes({{"b", {"F16", {2}, "5678"}}}));
  write_file(index,
             R"({"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto set = tensor_set::open(folder.path());
  REQUIRE(set.has_value());
  CHECK(set->all().size() == 2);
  CHECK(set->contains("b"));
  CHECK_FALSE(set->contains("unused"));

  struct lie {
    const char* text;
    const char* names;
  };
  for (const lie& each :
       {lie{R"({"weight_map":{"a":"../one.safetensors"}})", "weight_map.a"},
        lie{R"({"weight_map":{"a":"/etc/passwd"}})", "weight_map.a"},
        lie{R"({"weight_map":{"a":".."}})", "weight_map.a"}, lie{R"({"weight_map":{"a":7}})", "weight_map.a"},
        lie{R"({"weight_map":{"b":"one.safetensors"}})", "tensor \"b\": is not in"},
        lie{R"({"weight_map":{"a":"three.safetensors"}})", "three.safetensors: No such file"},
        lie{R"({"weight_map":[]})", "weight_map"}, lie{"{}", "weight_map"}, lie{"{", "not JSON"}}) {
    CAPTURE(each.text);
    write_file(index, each.text);
    const auto refused = tensor_set::open(folder.path());
    REQUIRE_FALSE(refused.has_value());
    CAPTURE(refused.error().message);
    CHECK(contains(refused.error().message, folder.path().string()));
    CHECK(contains(refused.error().message, each.names));
  }
}

TEST_CASE("a folder without weights and an empty file say so") {
  const temporary_folder folder;
  const auto none = tensor_set::open(folder.path());
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == errc::not_found);
  CHECK(contains(none.error().message, "model.safetensors"));
  write_file(folder.path() / "model.safetensors", "");
  const auto empty = tensor_set::open(folder.path());
  REQUIRE_FALSE(empty.has_value());
  CHECK(empty.error().code == errc::malformed);
  std::filesystem::remove(folder.path() / "model.safetensors");
  std::filesystem::create_directory(folder.path() / "model.safetensors");
  CHECK_FALSE(tensor_set::open(folder.path()).has_value());
}
