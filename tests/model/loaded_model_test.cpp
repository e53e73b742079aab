#include "model/loaded_model.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "model/transformer_weights.hpp"
#include "tests/model/random_model.hpp"
#include "tests/model/reference_platform.hpp"

using namespace yolk;
using namespace yolk::model;
using namespace yolk::model::testing;
using nlohmann::json;

namespace {

constexpr unsigned vocabulary = 300;
constexpr const char* chatml =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
    "'<|im_end|>' + "
    "'\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// GPT-2's stand-ins for bytes, then special tokens.
json byte_level_tokenizer() {
  json vocab = json::object();
  unsigned extra = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte < 127) || (byte >= 161 && byte != 173);
    const unsigned point = printable ? byte : extra++;
    std::string text;
    if (point < 128) {
      text = std::string(1, static_cast<char>(point));
    } else {
      text = {static_cast<char>(0xc0 | (point >> 6)), static_cast<char>(0x80 | (point & 63))};
    }
    vocab[text] = byte;
  }
  json added = json::array();
  const char* names[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (unsigned i = 0; i < 3; ++i)
    added.push_back({{"id", 256 + i}, {"content", names[i]}, {"special", true}, {"normalized", false}});
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {{"added_tokens", added},
          {"pre_tokenizer", byte_level},
          {"decoder", byte_level},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}};
}

random_shape small() {
  random_shape shape;
  shape.vocabulary = vocabulary;
  return shape;
}

/// A whole folder; the tests then damage one thing.
void write_folder(const random_model& model, const std::filesystem::path& folder) {
  write_model(model, folder);
  write_file(folder / "tokenizer.json", byte_level_tokenizer().dump());
  write_file(folder / "tokenizer_config.json",
             json{{"eos_token", "<|im_end|>"}, {"chat_template", chatml}}.dump());
}

std::string error_of(const std::filesystem::path& folder) {
  reference_platform platform;
  const auto loaded = load_model(folder, platform);
  REQUIRE_FALSE(loaded.has_value());
  const auto inspected = inspect_model(folder);
  REQUIRE_FALSE(inspected.has_value());
  CHECK(inspected.error().message == loaded.error().message);  // inspecting finds what loading would
  return loaded.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a model's folder becomes one model: name, tokens, chat template, weights and sizes") {
  const temporary_folder parent;
  const auto folder = parent.path() / "tiny-model";
  std::filesystem::create_directory(folder);
  const random_model model = make_random_model(small(), 1);
  write_folder(model, folder);
  reference_platform platform;
  const auto loaded = load_model(folder / "", platform);
  if (!loaded) FAIL(loaded.error().message);
  const loaded_model& tiny = **loaded;
  CHECK(tiny.name == "tiny-model");
  CHECK(tiny.fingerprint.size() == 32);
  CHECK(tiny.config.vocabulary_size == vocabulary);
  CHECK(tiny.config.end_tokens ==
        std::vector<core::token_id>{0});  // config.json's comes before the tokenizer's
  CHECK(tiny.tokens->encode("hi", {}) == std::vector<core::token_id>{'h', 'i'});
  REQUIRE_MESSAGE(tiny.chat != nullptr, tiny.chat_error);
  CHECK(tiny.chat_error.empty());
  std::uint64_t parameters = 0;
  for (const auto& [name, values] : model.values) parameters += values.size();
  CHECK(tiny.parameter_count == parameters);
  CHECK(tiny.weight_bytes == tiny.weights->memory_bytes);
  CHECK(tiny.weight_bytes >= 2 * parameters);

  const auto summary = inspect_model(folder);
  REQUIRE(summary.has_value());
  CHECK(summary->name == "tiny-model");
  CHECK(summary->parameter_count == parameters);
  CHECK(summary->weight_bytes == 2 * parameters);
  CHECK(summary->weight_dtype == "BF16");
  CHECK(summary->tokenizer_kind == "byte-level BPE");
  CHECK(summary->vocabulary_size == 259);
  CHECK(summary->chat_template_name == tiny.chat->name());
}

TEST_CASE("without an end token in either configuration the tokenizer's is taken") {
  const temporary_folder folder;
  random_model model = make_random_model(small(), 1);
  model.config.erase("eos_token_id");
  write_folder(model, folder.path());
  reference_platform platform;
  const auto loaded = load_model(folder.path(), platform);
  REQUIRE(loaded.has_value());
  CHECK((*loaded)->config.end_tokens == std::vector<core::token_id>{258});
}

TEST_CASE("a model without a chat template loads and says why it cannot chat") {
  const temporary_folder folder;
  write_folder(make_random_model(small(), 1), folder.path());
  write_file(folder.path() / "tokenizer_config.json", "{}");
  reference_platform platform;
  const auto loaded = load_model(folder.path(), platform);
  REQUIRE(loaded.has_value());
  CHECK((*loaded)->chat == nullptr);
  CHECK_FALSE((*loaded)->chat_error.empty());
  const auto summary = inspect_model(folder.path());
  REQUIRE(summary.has_value());
  CHECK(summary->chat_template_name.starts_with("none"));
}

TEST_CASE("the fingerprint changes with any weight, shape or setting, and with nothing else") {
  reference_platform platform;
  const auto fingerprint = [&](const random_model& model) {
    const temporary_folder folder;
    write_folder(model, folder.path());
    const auto loaded = load_model(folder.path(), platform);
    if (!loaded) FAIL(loaded.error().message);
    return (*loaded)->fingerprint;
  };
  const random_model model = make_random_model(small(), 1);
  CHECK(fingerprint(model) == fingerprint(model));
  std::set<std::string> seen = {fingerprint(model)};
  for (const char* name : {"model.norm.weight", "model.layers.1.mlp.up_proj.weight", "lm_head.weight"}) {
    random_model changed = model;
    changed.tensors.at(name).bytes.back() ^= 1;
    seen.insert(fingerprint(changed));
  }
  random_model changed = model;
  changed.config["rope_theta"] = 20000.0;
  seen.insert(fingerprint(changed));
  seen.insert(fingerprint(make_random_model(small(), 2)));
  CHECK(seen.size() == 6);
}

TEST_CASE("each file that is missing, torn or does not fit is named, with the field or tensor") {
  const temporary_folder parent;
  const random_model model = make_random_model(small(), 1);
  unsigned number = 0;
  const auto fresh = [&] {
    const auto folder = parent.path() / std::to_string(number++);
    std::filesystem::create_directory(folder);
    write_folder(model, folder);
    return folder;
  };
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const auto folder = fresh();
    std::filesystem::remove(folder / file);
    CHECK(contains(error_of(folder), file));
  }
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const auto folder = fresh();
    const std::string text = read_file(folder / file);
    write_file(folder / file, text.substr(0, text.size() - 5));
    CHECK(contains(error_of(folder), file));
  }
  for (const auto& [tensor, values] : model.values) {
    const auto folder = fresh();
    random_model changed = model;
    changed.tensors.erase(tensor);
    write_model(changed, folder);
    CHECK(contains(error_of(folder), "model.safetensors: tensor \"" + tensor + "\": is missing"));
    changed = model;
    changed.tensors.at(tensor).shape.push_back(1);
    write_model(changed, folder);
    CHECK(contains(error_of(folder), "model.safetensors: tensor \"" + tensor + "\": shape"));
  }
  const auto folder = fresh();
  random_model changed = make_random_model({.vocabulary = 200}, 1);
  write_model(changed, folder);
  CHECK(contains(error_of(folder), "tokenizer.json: has token ids up to 258, but vocab_size"));
}

TEST_CASE("weights in integers are refused by name") {
  const temporary_folder folder;
  random_model model = make_random_model(small(), 1);
  model.tensors.at("model.norm.weight").dtype = "I16";
  write_folder(model, folder.path());
  CHECK(contains(error_of(folder.path()), "tensor \"model.norm.weight\": dtype I16"));
}
