#include "model/tokenizer.hpp"

#include <algorithm>
#include <fstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "model/bpe.hpp"
#include "model/tokenizer_added.hpp"
#include "model/tokenizer_file.hpp"
#include "model/tokenizer_stages.hpp"
#include "model/unicode_text.hpp"

namespace yolk::model {

namespace {

constexpr std::uintmax_t max_file_bytes = 256u << 20;
/// Ids may have holes, but not so many that a small file asks for much memory.
constexpr std::size_t id_slack = std::size_t{1} << 20;

core::failure<errc> fail(errc code, const std::string& file, const std::string& field,
                         const std::string& why) {
  return {code, file + ": " + field + ": " + why};
}

/// Text of the file for an error: its beginning, with nothing that is not printable.
std::string shown(std::string_view text) {
  std::string out = "\"";
  utf8_append_lossy(out, text.substr(0, 60));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return out + '"';
}

/// Everything that a tokenizer is made of, in the making.
struct tokenizer_parts {
  std::string json_name;
  std::string config_name;
  tokenizer_file file;
  tokenizer_config_file config;
  std::size_t id_count = 0;
  std::unordered_map<std::string_view, core::token_id> by_text;  ///< the vocabulary as the file writes it
  std::unordered_map<std::string, core::token_id> added_by_text;
  std::vector<core::token_id> before;
  std::vector<core::token_id> after;
  std::optional<core::token_id> bos;
  std::optional<core::token_id> eos;
};

using check = result<core::void_t>;

check collect_vocabulary(tokenizer_parts& parts) {
  const tokenizer_file& file = parts.file;
  const std::size_t limit = id_slack + 2 * (file.vocabulary.size() + file.added.size());
  std::vector<bool> taken;
  const auto take = [&](core::token_id id) {
    if (id >= taken.size()) taken.resize(std::size_t{id} + 1);
    if (taken[id]) return false;
    taken[id] = true;
    return true;
  };
  parts.by_text.reserve(file.vocabulary.size());
  for (const auto& [text, id] : file.vocabulary) {
    const auto field = [&name = text] { return "model.vocab[" + shown(name) + "]"; };
    if (id >= limit) {
      return fail(errc::inconsistent, parts.json_name, field(),
                  "the id " + std::to_string(id) + " is too large for a vocabulary of " +
                      std::to_string(file.vocabulary.size()) + " tokens");
    }
    if (!parts.by_text.emplace(text, id).second)
      return fail(errc::inconsistent, parts.json_name, field(), "is there twice");
    if (!take(id)) {
      return fail(errc::inconsistent, parts.json_name, field(),
                  "the id " + std::to_string(id) + " belongs to another token too");
    }
    parts.id_count = std::max(parts.id_count, std::size_t{id} + 1);
  }
  return core::void_t{};
}

check collect_added(tokenizer_parts& parts) {
  const std::size_t limit = id_slack + 2 * (parts.file.vocabulary.size() + parts.file.added.size());
  std::unordered_map<core::token_id, std::string_view> by_id;
  for (const auto& [text, id] : parts.by_text) by_id.emplace(id, text);
  for (std::size_t i = 0; i < parts.file.added.size(); ++i) {
    const added_token& token = parts.file.added[i];
    const std::string field = "added_tokens[" + std::to_string(i) + "]";
    if (token.id >= limit)
      return fail(errc::inconsistent, parts.json_name, field + ".id",
                  std::to_string(token.id) + " is too large");
    const auto same_text = parts.by_text.find(token.content);
    if (same_text != parts.by_text.end() && same_text->second != token.id) {
      return fail(errc::inconsistent, parts.json_name, field,
                  shown(token.content) + " has the id " + std::to_string(token.id) + ", in model.vocab " +
                      std::to_string(same_text->second));
    }
    const auto same_id = by_id.emplace(token.id, token.content);
    if (!same_id.second && same_id.first->second != token.content) {
      return fail(
          errc::inconsistent, parts.json_name, field,
          "the id " + std::to_string(token.id) + " belongs to " + shown(same_id.first->second) + " too");
    }
    if (!parts.added_by_text.emplace(token.content, token.id).second) {
      return fail(errc::inconsistent, parts.json_name, field, shown(token.content) + " is there twice");
    }
    parts.id_count = std::max(parts.id_count, std::size_t{token.id} + 1);
  }
  return core::void_t{};
}

std::optional<core::token_id> known(const tokenizer_parts& parts, const std::string& text) {
  if (const auto found = parts.added_by_text.find(text); found != parts.added_by_text.end())
    return found->second;
  if (const auto found = parts.by_text.find(text); found != parts.by_text.end()) return found->second;
  return std::nullopt;
}

/// The tokens around a text: the post-processor's, and what tokenizer_config.json says of bos and eos, which
/// wins (as in transformers' Llama classes).
check collect_frame(tokenizer_parts& parts) {
  const auto collect = [&](const std::vector<std::string>& names, std::vector<core::token_id>& out) -> check {
    for (const std::string& name : names) {
      const auto id = known(parts, name);
      if (!id)
        return fail(errc::inconsistent, parts.json_name, "post_processor.single",
                    shown(name) + " is no token");
      out.push_back(*id);
    }
    return core::void_t{};
  };
  if (auto done = collect(parts.file.before, parts.before); !done) return done;
  if (auto done = collect(parts.file.after, parts.after); !done) return done;
  const tokenizer_config_file& config = parts.config;
  if (config.bos) parts.bos = known(parts, *config.bos);
  if (config.eos) parts.eos = known(parts, *config.eos);
  if (config.add_bos.value_or(false) && config.bos && !parts.bos) {
    return fail(errc::inconsistent, parts.config_name, "bos_token", shown(*config.bos) + " is no token");
  }
  if (config.add_eos.value_or(false) && config.eos && !parts.eos) {
    return fail(errc::inconsistent, parts.config_name, "eos_token", shown(*config.eos) + " is no token");
  }
  if (config.add_bos && parts.bos) {
    const bool there = !parts.before.empty() && parts.before.front() == *parts.bos;
    if (*config.add_bos && !there) parts.before.insert(parts.before.begin(), *parts.bos);
    if (!*config.add_bos && there) parts.before.erase(parts.before.begin());
  }
  if (config.add_eos && parts.eos) {
    const bool there = !parts.after.empty() && parts.after.back() == *parts.eos;
    if (*config.add_eos && !there) parts.after.push_back(*parts.eos);
    if (!*config.add_eos && there) parts.after.pop_back();
  }
  return core::void_t{};
}

result<merge_table> collect_merges(const tokenizer_parts& parts, const std::vector<bool>& special) {
  merge_table table(parts.file.merges.size());
  std::string whole;
  for (std::size_t rank = 0; rank < parts.file.merges.size(); ++rank) {
    const auto& [left, right] = parts.file.merges[rank];
    whole.assign(left).append(right);
    const auto field = [&] { return "model.merges[" + std::to_string(rank) + "]"; };
    // An empty part would merge a token into itself for ever.
    if (left.empty() || right.empty())
      return fail(errc::malformed, parts.json_name, field(), "has an empty token");
    core::token_id ids[3] = {};
    const std::string_view texts[3] = {left, right, whole};
    for (int i = 0; i < 3; ++i) {
      const auto found = parts.by_text.find(texts[i]);
      if (found == parts.by_text.end()) {
        return fail(errc::inconsistent, parts.json_name, field(),
                    (i == 2 ? "makes " : "names ") + shown(texts[i]) + ", which is not in model.vocab");
      }
      ids[i] = found->second;
    }
    // Else two tokens of ordinary text could become a special one.
    if (special[ids[2]]) continue;
    table.set(ids[0], ids[1], {static_cast<std::uint32_t>(rank), ids[2]});
  }
  return table;
}

std::string decoded_text(const decoder_spec& decoder, std::string text) {
  if (decoder.byte_fallback && text.size() == 6 && text.starts_with("<0x") && text.back() == '>') {
    const auto digit = [](char c) {
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                    : -1;
    };
    const int high = digit(text[3]);
    const int low = digit(text[4]);
    if (high >= 0 && low >= 0) return std::string(1, static_cast<char>(high * 16 + low));
  }
  for (const auto& [from, to] : decoder.replacements) {
    std::string out;
    std::size_t done = 0;
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
      out.append(text, done, at - done).append(to);
      done = at + from.size();
    }
    text = out.append(text, done);
  }
  return text;
}

/// Tokens that steer a model whatever their flag says: fine-tunes are known to add "<|im_start|>" as an
/// ordinary one.
bool looks_like_control(std::string_view text) {
  const auto framed = [&](std::string_view open, std::string_view close) {
    return text.size() > open.size() + close.size() && text.starts_with(open) && text.ends_with(close);
  };
  return framed("<|", "|>") || framed("<\xEF\xBD\x9C", "\xEF\xBD\x9C>");
}

class bpe_tokenizer final : public tokenizer {
 public:
  static result<std::shared_ptr<const tokenizer>> make(tokenizer_parts parts);

  [[nodiscard]] std::vector<core::token_id> encode(std::string_view text,
                                                   const encode_options& options) const override;
  [[nodiscard]] std::string decode(std::span<const core::token_id> tokens,
                                   bool skip_special_tokens) const override;
  [[nodiscard]] std::string piece(core::token_id token, bool first) const override {
    return std::string(piece_view(token, first));
  }
  [[nodiscard]] bool is_special(core::token_id token) const override {
    return token < special_.size() && special_[token];
  }
  [[nodiscard]] std::optional<core::token_id> find(std::string_view token_text) const override;
  [[nodiscard]] std::size_t vocabulary_size() const override { return special_.size(); }
  [[nodiscard]] std::optional<core::token_id> bos() const override { return bos_; }
  [[nodiscard]] std::optional<core::token_id> eos() const override { return eos_; }
  [[nodiscard]] const std::string& chat_template_text() const override { return chat_template_; }

 private:
  class run;

  bpe_tokenizer(bpe model, tokenizer_parts parts, std::vector<bool> special);
  void set_decoded(const tokenizer_parts& parts);
  void set_added(const tokenizer_parts& parts);
  [[nodiscard]] std::string_view piece_view(core::token_id token, bool first) const;

  bpe model_;
  bool byte_level_;
  std::vector<bool> special_;
  std::vector<normalizer_stage> normalizers_;
  std::vector<split_stage> splitters_;
  std::vector<added_token> added_;
  added_token_finder raw_finder_;         ///< in the text as it comes
  added_token_finder normalized_finder_;  ///< in the normalised text between those
  std::unordered_map<std::string, core::token_id> added_by_text_;
  std::unordered_map<std::string, core::token_id>
      unmapped_;         ///< byte level: tokens with characters that are no bytes
  token_table decoded_;  ///< what each token adds to a text
  bool drops_first_space_;
  std::vector<core::token_id> before_;
  std::vector<core::token_id> after_;
  std::optional<core::token_id> bos_;
  std::optional<core::token_id> eos_;
  std::string chat_template_;
};

/// One encode call, on its caller's stack.
class bpe_tokenizer::run final : public word_sink {
 public:
  run(const bpe_tokenizer& self, const encode_options& options, std::vector<core::token_id>& out)
      : self_(self), options_(options), out_(out), splitter_(self.splitters_, *this) {}

  void text(std::string_view text) {
    between(self_.raw_finder_, text, 0,
            [&](std::string_view part, std::size_t begin) { bytes(part, begin); });
  }
  void word(std::string_view bytes) override { self_.model_.encode(bytes, work_, out_); }

 private:
  /// Emits the added tokens of `text` and hands on what lies between them. `origin`: where `text` lies in the
  /// whole.
  template <class Rest>
  void between(const added_token_finder& finder, std::string_view text, std::size_t origin,
               const Rest& rest) {
    std::size_t done = 0;
    added_token_finder::match match;
    const auto accept = [&](const added_token_finder::match& candidate) {
      return allowed(text, origin, candidate);
    };
    while (!finder.empty() && finder.find(text, done, accept, match)) {
      const added_token& token = self_.added_[match.index];
      const std::size_t begin =
          token.lstrip ? done + strip_right(text.substr(done, match.begin - done)).size() : match.begin;
      rest(text.substr(done, begin - done), origin + done);
      out_.push_back(token.id);
      done = token.rstrip ? text.size() - strip_left(text.substr(match.end)).size() : match.end;
    }
    rest(text.substr(done), origin + done);
  }

  [[nodiscard]] bool allowed(std::string_view text, std::size_t origin,
                             const added_token_finder::match& match) const {
    const added_token& token = self_.added_[match.index];
    if (token.control &&
        !(options_.parse_special_tokens && trusted(origin + match.begin, origin + match.end)))
      return false;
    if (!token.single_word) return true;
    if (match.end < text.size() && is_word_character(utf8_at(text, match.end).code_point)) return false;
    std::size_t before = match.begin;
    while (before > 0 && match.begin - before < 4) {
      --before;
      if ((static_cast<std::uint8_t>(text[before]) & 0xC0) != 0x80) break;
    }
    return match.begin == 0 || !is_word_character(utf8_at(text, before).code_point);
  }
  [[nodiscard]] bool trusted(std::size_t begin, std::size_t end) const {
    if (options_.trusted.empty()) return true;
    const auto after =
        std::upper_bound(options_.trusted.begin(), options_.trusted.end(), begin,
                         [](std::size_t at, const trusted_range& range) { return at < range.begin; });
    return after != options_.trusted.begin() && end <= std::prev(after)->end;
  }

  /// A part without added tokens: any bytes. What is no UTF-8 goes to the model as it is.
  void bytes(std::string_view part, std::size_t begin) {
    std::size_t at = 0;
    while (at < part.size()) {
      const std::size_t valid = utf8_valid_prefix(part.substr(at));
      if (valid > 0) characters(part.substr(at, valid), begin + at, at > 0);
      at += valid;
      std::size_t end = at;
      for (utf8_step step; end < part.size(); end += step.length) {
        step = utf8_at(part, end);
        if (step.valid) break;
      }
      if (end > at) word(part.substr(at, end - at));
      at = end;
    }
  }
  void characters(std::string_view part, std::size_t begin, bool continued) {
    const std::string_view normal = normalize(self_.normalizers_, part, continued, buffer_);
    if (self_.normalized_finder_.empty()) {
      splitter_.run(normal, begin == 0);
      return;
    }
    // Places in the normalised text are not those of the text: the whole part is trusted or none of it.
    if (!trusted(begin, begin + part.size())) {
      encode_options distrusting = options_;
      distrusting.parse_special_tokens = false;
      std::swap(options_, distrusting);
      normal_parts(normal, begin);
      std::swap(options_, distrusting);
    } else {
      normal_parts(normal, begin);
    }
  }
  void normal_parts(std::string_view normal, std::size_t begin) {
    encode_options kept = options_;
    options_.trusted = {};
    between(self_.normalized_finder_, normal, 0,
            [&](std::string_view rest, std::size_t at) { splitter_.run(rest, begin == 0 && at == 0); });
    options_ = kept;
  }

  const bpe_tokenizer& self_;
  encode_options options_;
  std::vector<core::token_id>& out_;
  splitter splitter_;
  bpe_workspace work_;
  std::string buffer_;
};

bpe_tokenizer::bpe_tokenizer(bpe model, tokenizer_parts parts, std::vector<bool> special)
    : model_(std::move(model)),
      byte_level_(parts.file.byte_level),
      special_(std::move(special)),
      normalizers_(std::move(parts.file.normalizers)),
      splitters_(std::move(parts.file.splitters)),
      added_by_text_(parts.added_by_text),
      decoded_(parts.id_count),
      drops_first_space_(parts.file.decoder.drops_first_space && !parts.file.byte_level),
      before_(parts.before),
      after_(parts.after),
      bos_(parts.bos),
      eos_(parts.eos),
      chat_template_(parts.config.chat_template) {
  set_decoded(parts);
  set_added(parts);
}

void bpe_tokenizer::set_decoded(const tokenizer_parts& parts) {
  for (const auto& [text, id] : parts.file.vocabulary) {
    if (!byte_level_) {
      decoded_.set(id, decoded_text(parts.file.decoder, text));
    } else if (const auto bytes = byte_level_bytes(text)) {
      decoded_.set(id, *bytes);
    } else {
      decoded_.set(id, text);
      unmapped_.emplace(text, id);
    }
  }
  for (const added_token& token : parts.file.added) {
    decoded_.set(token.id, byte_level_ ? token.content : decoded_text(parts.file.decoder, token.content));
  }
}

void bpe_tokenizer::set_added(const tokenizer_parts& parts) {
  added_ = parts.file.added;
  std::string buffer;
  for (std::size_t i = 0; i < added_.size(); ++i) {
    added_token& token = added_[i];
    token.control = token.special || looks_like_control(token.content) || token.content == parts.config.bos ||
                    token.content == parts.config.eos;
    // Looked for in the text as it comes wherever that is the same: only there is known which text is
    // trusted.
    const std::string_view normal = token.normalized ? normalize(normalizers_, token.content, false, buffer)
                                                     : std::string_view(token.content);
    auto& finder = normal == token.content ? raw_finder_ : normalized_finder_;
    finder.add(normal, static_cast<std::uint32_t>(i));
  }
}

result<std::shared_ptr<const tokenizer>> bpe_tokenizer::make(tokenizer_parts parts) {
  for (const auto step : {collect_vocabulary, collect_added, collect_frame}) {
    if (auto done = step(parts); !done) return done.error();
  }
  const tokenizer_file& file = parts.file;
  std::vector<bool> special(parts.id_count);
  for (const added_token& token : file.added) special[token.id] = token.special;
  bpe_options options{.byte_level = file.byte_level,
                      .byte_fallback = file.byte_fallback,
                      .fuse_unknown = file.fuse_unknown,
                      .ignore_merges = file.ignore_merges,
                      .unknown = std::nullopt};
  if (file.unknown) {
    options.unknown = known(parts, *file.unknown);
    if (!options.unknown) {
      return fail(errc::inconsistent, parts.json_name, "model.unk_token",
                  shown(*file.unknown) + " is no token");
    }
  }
  auto merges = collect_merges(parts, special);
  if (!merges) return merges.error();
  token_table table(parts.id_count);
  std::vector<core::token_id> indexed;
  indexed.reserve(file.vocabulary.size());
  for (const auto& [text, id] : file.vocabulary) {
    const auto bytes = file.byte_level ? byte_level_bytes(text) : std::optional<std::string>(text);
    if (!bytes) continue;
    table.set(id, *bytes);
    indexed.push_back(id);
  }
  bpe model(std::move(table), indexed, std::move(*merges), options, special);
  return std::shared_ptr<const tokenizer>(
      new bpe_tokenizer(std::move(model), std::move(parts), std::move(special)));
}

std::vector<core::token_id> bpe_tokenizer::encode(std::string_view text,
                                                  const encode_options& options) const {
  std::vector<core::token_id> out;
  out.reserve(text.size() / 4 + 8);
  if (options.add_special_tokens) out = before_;
  run(*this, options, out).text(text);
  if (options.add_special_tokens) out.insert(out.end(), after_.begin(), after_.end());
  return out;
}

std::string_view bpe_tokenizer::piece_view(core::token_id token, bool first) const {
  std::string_view text = decoded_.bytes(token);
  if (first && drops_first_space_ && text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

std::string bpe_tokenizer::decode(std::span<const core::token_id> tokens, bool skip_special_tokens) const {
  std::string bytes;
  bool first = true;
  for (const core::token_id token : tokens) {
    if (skip_special_tokens && is_special(token)) continue;
    bytes.append(piece_view(token, std::exchange(first, false)));
  }
  std::string text;
  text.reserve(bytes.size());
  if (utf8_append_lossy(text, bytes) > 0) text.append(replacement_character);
  return text;
}

std::optional<core::token_id> bpe_tokenizer::find(std::string_view token_text) const {
  const std::string text(token_text);
  if (const auto found = added_by_text_.find(text); found != added_by_text_.end()) return found->second;
  if (const auto found = unmapped_.find(text); found != unmapped_.end()) return found->second;
  const auto bytes = byte_level_ ? byte_level_bytes(text) : std::optional<std::string>(text);
  const core::token_id id = bytes ? model_.tokens().find(*bytes) : no_token;
  return id == no_token ? std::nullopt : std::optional<core::token_id>(id);
}

result<std::string> read_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return core::failure<errc>{errc::not_found, path.string() + ": " + error.message()};
  if (size > max_file_bytes) {
    return core::failure<errc>{errc::malformed, path.string() + ": has " + std::to_string(size) +
                                                    " bytes, the limit is " + std::to_string(max_file_bytes)};
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (!in) return core::failure<errc>{errc::io, path.string() + ": cannot be read"};
  return text;
}

result<std::shared_ptr<const tokenizer>> build(std::string_view json, std::string_view config_json,
                                               std::optional<std::string> chat_template,
                                               std::string_view name) {
  tokenizer_parts parts;
  parts.json_name = std::string(name) + "/tokenizer.json";
  parts.config_name = std::string(name) + "/tokenizer_config.json";
  auto file = read_tokenizer_file(json, parts.json_name);
  if (!file) return file.error();
  parts.file = std::move(*file);
  if (!config_json.empty()) {
    auto config = read_tokenizer_config(config_json, parts.config_name);
    if (!config) return config.error();
    parts.config = std::move(*config);
  }
  if (chat_template) parts.config.chat_template = std::move(*chat_template);
  return bpe_tokenizer::make(std::move(parts));
}

}  // namespace

result<std::shared_ptr<const tokenizer>> tokenizer::load(const std::filesystem::path& folder) {
  auto json = read_file(folder / "tokenizer.json");
  if (!json) return json.error();
  std::string config;
  if (std::filesystem::exists(folder / "tokenizer_config.json")) {
    auto text = read_file(folder / "tokenizer_config.json");
    if (!text) return text.error();
    config = std::move(*text);
  }
  std::optional<std::string> chat_template;
  if (std::filesystem::exists(folder / "chat_template.jinja")) {
    auto text = read_file(folder / "chat_template.jinja");
    if (!text) return text.error();
    chat_template = std::move(*text);
  }
  return build(*json, config, std::move(chat_template), folder.string());
}

result<std::shared_ptr<const tokenizer>> tokenizer::parse(std::string_view json, std::string_view config_json,
                                                          std::string_view name) {
  return build(json, config_json, std::nullopt, name);
}

}  // namespace yolk::model
