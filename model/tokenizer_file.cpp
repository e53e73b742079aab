#include "model/tokenizer_file.hpp"

#include <array>

#include "model/tokenizer_json.hpp"

namespace yolk::model {

namespace {

using files::fault;
using files::json;
using files::reject;

/// A Sequence inside of a Sequence is legal, without end only in a file made to hurt.
constexpr int max_nesting = 8;
constexpr std::size_t max_stages = 64;
/// A trie node a byte: the bound on what a hostile file makes of its added tokens.
constexpr std::size_t max_added_token_bytes = 4096;
constexpr std::string_view gpt2_expression =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// A value and where it is in the file: every access says what is wrong with it there.
class node {
 public:
  node(const json& value, std::string path, const std::string& file)
      : value_(value), path_(std::move(path)), file_(file) {}

  [[nodiscard]] bool is_null() const { return value_.is_null(); }
  [[nodiscard]] bool is_string() const { return value_.is_string(); }
  [[nodiscard]] bool is_object() const { return value_.is_object(); }
  [[nodiscard]] bool is_array() const { return value_.is_array(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string full_path() const { return file_ + ": " + path_; }

  [[nodiscard]] bool has(const char* key) const {
    const auto found = value_.is_object() ? value_.find(key) : value_.end();
    return value_.is_object() && found != value_.end() && !found->is_null();
  }
  [[nodiscard]] node at(const char* key) const {
    if (!value_.is_object()) reject(path_, "must be an object");
    const auto found = value_.find(key);
    if (found == value_.end()) reject(join(key), "is missing");
    return {*found, join(key), file_};
  }
  [[nodiscard]] const std::string& text() const {
    if (!value_.is_string()) reject(path_, "must be a string");
    return value_.get_ref<const std::string&>();
  }
  [[nodiscard]] bool flag() const {
    if (!value_.is_boolean()) reject(path_, "must be true or false");
    return value_.get<bool>();
  }
  [[nodiscard]] std::uint64_t number() const {
    if (!value_.is_number_unsigned()) reject(path_, "must be a whole number, not negative");
    return value_.get<std::uint64_t>();
  }
  [[nodiscard]] bool flag_or(const char* key, bool otherwise) const {
    return has(key) ? at(key).flag() : otherwise;
  }
  [[nodiscard]] std::string text_or(const char* key, const std::string& otherwise) const {
    return has(key) ? at(key).text() : otherwise;
  }
  [[nodiscard]] std::string type() const { return at("type").text(); }

  template <class Visit>
  void each(const Visit& visit) const {
    if (!value_.is_array()) reject(path_, "must be an array");
    std::size_t index = 0;
    for (const json& item : value_) {
      visit(node(item, path_ + '[' + std::to_string(index) + ']', file_));
      ++index;
    }
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    reject(path_, what + " is not supported", errc::unsupported);
  }

 private:
  [[nodiscard]] std::string join(const char* key) const { return path_.empty() ? key : path_ + '.' + key; }

  const json& value_;
  std::string path_;
  const std::string& file_;
};

/// {"String": …} or {"Regex": …}
text_pattern pattern_of(const node& value) {
  if (value.is_string()) return text_pattern::literal(value.text());
  if (value.has("String")) {
    const std::string text = value.at("String").text();
    if (text.empty()) reject(value.path() + ".String", "must not be empty");
    return text_pattern::literal(text);
  }
  const node expression = value.at("Regex");
  auto pattern = text_pattern::regex(expression.text(), expression.full_path());
  if (!pattern) {
    // The message has file and path already; the path is taken off again.
    std::string why = pattern.error().message.substr(expression.full_path().size() + 2);
    reject(expression.path(), std::move(why), pattern.error().code);
  }
  return std::move(*pattern);
}

void check_count(std::size_t count, const node& value) {
  if (count >= max_stages)
    reject(value.path(), "there are more than " + std::to_string(max_stages) + " stages");
}

void read_normalizer(const node& value, int nesting, std::vector<normalizer_stage>& out) {
  if (value.is_null()) return;
  check_count(out.size(), value);
  const std::string type = value.type();
  normalizer_stage stage;
  if (type == "Sequence") {
    if (nesting >= max_nesting) reject(value.path(), "nested deeper than " + std::to_string(max_nesting));
    value.at("normalizers").each([&](const node& item) { read_normalizer(item, nesting + 1, out); });
    return;
  }
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    stage.form = type == "NFC"    ? normal_form::nfc
                 : type == "NFD"  ? normal_form::nfd
                 : type == "NFKC" ? normal_form::nfkc
                                  : normal_form::nfkd;
  } else if (type == "Prepend") {
    stage.what = normalizer_stage::kind::prepend;
    stage.content = value.at("prepend").text();
  } else if (type == "Replace") {
    stage.what = normalizer_stage::kind::replace;
    stage.pattern = pattern_of(value.at("pattern"));
    stage.content = value.at("content").text();
  } else {
    value.unsupported("the normalizer " + type.substr(0, 40));
  }
  out.push_back(std::move(stage));
}

split_behavior behavior_of(const node& value) {
  const std::string& text = value.text();
  if (text == "Removed") return split_behavior::removed;
  if (text == "Isolated") return split_behavior::isolated;
  if (text == "MergedWithPrevious") return split_behavior::merged_with_previous;
  if (text == "MergedWithNext") return split_behavior::merged_with_next;
  if (text == "Contiguous") return split_behavior::contiguous;
  reject(value.path(), "is no split behavior");
}

split_stage regex_stage(std::string_view expression, const node& value) {
  split_stage stage;
  auto pattern = text_pattern::regex(expression, value.full_path());
  if (!pattern) reject(value.path(), pattern.error().message, pattern.error().code);
  stage.pattern = std::move(*pattern);
  return stage;
}

split_stage metaspace_stage(const node& value) {
  split_stage stage;
  stage.what = split_stage::kind::metaspace;
  stage.replacement = value.text_or("replacement", "\xE2\x96\x81");
  if (stage.replacement.empty()) reject(value.path() + ".replacement", "must not be empty");
  if (value.has("prepend_scheme")) {
    const node scheme = value.at("prepend_scheme");
    if (scheme.text() == "always") {
      stage.scheme = split_stage::prepend::always;
    } else if (scheme.text() == "first") {
      stage.scheme = split_stage::prepend::first;
    } else if (scheme.text() == "never") {
      stage.scheme = split_stage::prepend::never;
    } else {
      reject(scheme.path(), "must be \"always\", \"first\" or \"never\"");
    }
  } else {
    stage.scheme =
        value.flag_or("add_prefix_space", true) ? split_stage::prepend::always : split_stage::prepend::never;
  }
  stage.splits = value.flag_or("split", true);
  stage.behavior = split_behavior::merged_with_next;
  stage.pattern = text_pattern::literal(stage.replacement);
  return stage;
}

void read_splitter(const node& value, int nesting, tokenizer_file& out) {
  if (value.is_null()) return;
  check_count(out.splitters.size(), value);
  const std::string type = value.type();
  if (type == "Sequence") {
    if (nesting >= max_nesting) reject(value.path(), "nested deeper than " + std::to_string(max_nesting));
    value.at("pretokenizers").each([&](const node& item) { read_splitter(item, nesting + 1, out); });
  } else if (type == "Split") {
    split_stage stage;
    stage.pattern = pattern_of(value.at("pattern"));
    stage.behavior = behavior_of(value.at("behavior"));
    stage.invert = value.flag_or("invert", false);
    out.splitters.push_back(std::move(stage));
  } else if (type == "ByteLevel") {
    out.byte_level = true;
    if (value.flag_or("add_prefix_space", true)) {
      split_stage stage;
      stage.what = split_stage::kind::prefix_space;
      out.splitters.push_back(std::move(stage));
    }
    if (value.flag_or("use_regex", true)) out.splitters.push_back(regex_stage(gpt2_expression, value));
  } else if (type == "Digits") {
    out.splitters.push_back(
        regex_stage(value.flag_or("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)", value));
  } else if (type == "Metaspace") {
    out.splitters.push_back(metaspace_stage(value));
  } else {
    value.unsupported("the pre-tokenizer " + type.substr(0, 40));
  }
}

void read_decoder(const node& value, int nesting, decoder_spec& out) {
  if (value.is_null()) return;
  const std::string type = value.type();
  if (type == "Sequence") {
    if (nesting >= max_nesting) reject(value.path(), "nested deeper than " + std::to_string(max_nesting));
    value.at("decoders").each([&](const node& item) { read_decoder(item, nesting + 1, out); });
  } else if (type == "ByteLevel") {
    out.byte_level = true;
  } else if (type == "ByteFallback") {
    out.byte_fallback = true;
  } else if (type == "Replace") {
    check_count(out.replacements.size(), value);
    const node pattern = value.at("pattern");
    if (pattern.has("Regex")) pattern.unsupported("a Regex in a decoder");
    out.replacements.emplace_back(pattern.is_string() ? pattern.text() : pattern.at("String").text(),
                                  value.at("content").text());
    if (out.replacements.back().first.empty()) reject(pattern.path(), "must not be empty");
  } else if (type == "Metaspace") {
    out.replacements.emplace_back(value.text_or("replacement", "\xE2\x96\x81"), " ");
    if (out.replacements.back().first.empty()) reject(value.path() + ".replacement", "must not be empty");
    out.drops_first_space = value.has("prepend_scheme") ? value.text_or("prepend_scheme", "") != "never"
                                                        : value.flag_or("add_prefix_space", true);
  } else if (type == "Strip") {
    const std::uint64_t start = value.has("start") ? value.at("start").number() : 0;
    const std::uint64_t stop = value.has("stop") ? value.at("stop").number() : 0;
    if (value.text_or("content", " ") != " " || start > 1 || stop > 0) {
      value.unsupported("a Strip of anything but one space at the start");
    }
    out.drops_first_space = start == 1;
  } else if (type != "Fuse") {
    value.unsupported("the decoder " + type.substr(0, 40));
  }
}

/// The ids of a template are looked up by name: "ids" there may name several, "tokens" names the same.
void read_template(const node& value, tokenizer_file& out) {
  out.before.clear();
  out.after.clear();
  bool after_text = false;
  value.at("single").each([&](const node& piece) {
    if (piece.has("Sequence")) {
      after_text = true;
      return;
    }
    const node special = piece.at("SpecialToken");
    auto& side = after_text ? out.after : out.before;
    check_count(side.size(), piece);
    side.push_back(special.at("id").text());
  });
}

void read_post_processor(const node& value, int nesting, tokenizer_file& out) {
  if (value.is_null()) return;
  const std::string type = value.type();
  if (type == "Sequence") {
    if (nesting >= max_nesting) reject(value.path(), "nested deeper than " + std::to_string(max_nesting));
    value.at("processors").each([&](const node& item) { read_post_processor(item, nesting + 1, out); });
  } else if (type == "TemplateProcessing") {
    read_template(value, out);
  } else if (type != "ByteLevel") {
    value.unsupported("the post-processor " + type.substr(0, 40));
  }
}

added_token read_added(const node& value) {
  added_token token;
  const std::uint64_t id = value.at("id").number();
  if (id >= 0xffffffffull) reject(value.path() + ".id", "the id " + std::to_string(id) + " is out of range");
  token.id = static_cast<core::token_id>(id);
  token.content = value.at("content").text();
  if (token.content.empty()) reject(value.path() + ".content", "must not be empty");
  if (token.content.size() > max_added_token_bytes) {
    reject(value.path() + ".content", "has " + std::to_string(token.content.size()) +
                                          " bytes, the limit is " + std::to_string(max_added_token_bytes));
  }
  token.single_word = value.flag_or("single_word", false);
  token.lstrip = value.flag_or("lstrip", false);
  token.rstrip = value.flag_or("rstrip", false);
  token.special = value.flag_or("special", false);
  token.normalized = value.flag_or("normalized", !token.special);
  return token;
}

void read_model(const node& value, tokenizer_file& out) {
  const std::string type = value.text_or("type", "BPE");
  if (type != "BPE") value.unsupported("the type " + type.substr(0, 40) + " (another than BPE)");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!value.text_or(key, "").empty()) value.at(key).unsupported("a text other than empty");
  }
  if (value.has("unk_token")) out.unknown = value.at("unk_token").text();
  out.byte_fallback = value.flag_or("byte_fallback", false);
  out.fuse_unknown = value.flag_or("fuse_unk", false);
  out.ignore_merges = value.flag_or("ignore_merges", false);
  for (const char* key : {"vocab", "merges"}) {
    // Where they have the right type they are not in the tree.
    if (value.has(key))
      reject(value.path() + '.' + key, "must be an object of ids (vocab) or an array (merges)");
  }
}

std::optional<std::string> token_name(const node& root, const char* key) {
  if (!root.has(key)) return std::nullopt;
  const node value = root.at(key);
  return value.is_string() ? value.text() : value.at("content").text();
}

/// A list of named templates has one called "default".
std::string chat_template_of(const node& root) {
  if (!root.has("chat_template")) return {};
  const node value = root.at("chat_template");
  if (value.is_string()) return value.text();
  std::string text;
  value.each([&](const node& item) {
    if (item.at("name").text() == "default") text = item.at("template").text();
  });
  return text;
}

template <class Read>
auto guarded(const std::string& name, const Read& read) -> result<decltype(read())> {
  try {
    return read();
  } catch (const fault& problem) {
    const std::string field = problem.field.empty() ? std::string() : problem.field + ": ";
    return core::failure<errc>{problem.code, name + ": " + field + problem.why};
  } catch (const std::bad_alloc&) {
    return core::failure<errc>{errc::out_of_memory, name + ": no memory for its contents"};
  }
}

}  // namespace

result<tokenizer_file> read_tokenizer_file(std::string_view text, const std::string& name) {
  return guarded(name, [&] {
    files::split_document document = files::parse_document(text);
    const node root(document.tree, "", name);
    tokenizer_file out;
    read_model(root.at("model"), out);
    out.vocabulary = std::move(document.vocabulary);
    out.merges = std::move(document.merges);
    if (out.vocabulary.empty()) reject("model.vocab", "is missing or empty");
    if (root.has("added_tokens")) {
      root.at("added_tokens").each([&](const node& item) { out.added.push_back(read_added(item)); });
    }
    if (root.has("normalizer")) read_normalizer(root.at("normalizer"), 0, out.normalizers);
    if (root.has("pre_tokenizer")) read_splitter(root.at("pre_tokenizer"), 0, out);
    if (root.has("decoder")) read_decoder(root.at("decoder"), 0, out.decoder);
    if (root.has("post_processor")) read_post_processor(root.at("post_processor"), 0, out);
    out.byte_level = out.byte_level || out.decoder.byte_level;
    return out;
  });
}

result<tokenizer_config_file> read_tokenizer_config(std::string_view text, const std::string& name) {
  return guarded(name, [&] {
    const files::split_document document = files::parse_document(text);
    const node root(document.tree, "", name);
    tokenizer_config_file out;
    out.bos = token_name(root, "bos_token");
    out.eos = token_name(root, "eos_token");
    if (root.has("add_bos_token")) out.add_bos = root.at("add_bos_token").flag();
    if (root.has("add_eos_token")) out.add_eos = root.at("add_eos_token").flag();
    out.chat_template = chat_template_of(root);
    return out;
  });
}

std::string byte_level_character(std::uint8_t byte) {
  // GPT-2's table: printable Latin-1 stands for itself, the other 68 bytes are U+0100 and on, in order.
  const auto printable = [](int b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  std::string out;
  if (printable(byte)) {
    utf8_append(out, byte);
    return out;
  }
  char32_t code_point = 0x100;
  for (int b = 0; b < byte; ++b) code_point += printable(b) ? 0 : 1;
  utf8_append(out, code_point);
  return out;
}

std::optional<std::string> byte_level_bytes(std::string_view text) {
  static const std::array<int, 0x200> table = [] {
    std::array<int, 0x200> bytes{};
    bytes.fill(-1);
    for (int byte = 0; byte < 256; ++byte) {
      bytes[utf8_at(byte_level_character(static_cast<std::uint8_t>(byte)), 0).code_point] = byte;
    }
    return bytes;
  }();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = utf8_at(text, at);
    if (!step.valid || step.code_point >= table.size() || table[step.code_point] < 0) return std::nullopt;
    out.push_back(static_cast<char>(table[step.code_point]));
    at += step.length;
  }
  return out;
}

}  // namespace yolk::model
