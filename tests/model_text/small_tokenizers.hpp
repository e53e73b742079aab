#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/tokenizer_file.hpp"

/// Texts of small tokenizer.json files, put together for a test.
namespace yolk::model::test {

inline std::string joined(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) out.append(part);
  return out;
}

inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out += "\\u00";
      out.push_back(digits[static_cast<unsigned char>(c) >> 4]);
      out.push_back(digits[c & 15]);
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

struct small_file {
  std::vector<std::string> vocabulary;  ///< the id is the place
  std::vector<std::pair<std::string, std::string>> merges;
  std::string model_fields;  ///< , "byte_fallback": true …
  std::string added;         ///< the array's elements
  std::string rest;          ///< , "normalizer": …

  [[nodiscard]] std::string json() const {
    std::string out = R"({"version":"1.0","added_tokens":[)" + added + R"(],"model":{"type":"BPE")" +
                      model_fields + R"(,"vocab":{)";
    for (std::size_t id = 0; id < vocabulary.size(); ++id) {
      out += joined({id == 0 ? "" : ",", json_string(vocabulary[id]), ":", std::to_string(id)});
    }
    out += R"(},"merges":[)";
    for (std::size_t i = 0; i < merges.size(); ++i) {
      out += joined(
          {i == 0 ? "[" : ",[", json_string(merges[i].first), ",", json_string(merges[i].second), "]"});
    }
    return out + "]}" + rest + "}";
  }
};

/// A token for every byte (id = byte), the words of `words` with the merges that make them from the left, and
/// ChatML's special tokens behind them.
inline small_file byte_level_file(const std::vector<std::string>& words) {
  small_file file;
  for (int byte = 0; byte < 256; ++byte)
    file.vocabulary.push_back(byte_level_character(static_cast<std::uint8_t>(byte)));
  const auto have = [&](const std::string& text) {
    for (const std::string& token : file.vocabulary) {
      if (token == text) return true;
    }
    return false;
  };
  for (const std::string& word : words) {
    std::string left;
    for (const char byte : word) {
      const std::string right = byte_level_character(static_cast<std::uint8_t>(byte));
      if (!left.empty() && !have(left + right)) {
        file.merges.emplace_back(left, right);
        file.vocabulary.push_back(left + right);
      }
      left += right;
    }
  }
  const std::size_t next = file.vocabulary.size();
  const auto special = [&](std::size_t id, const char* text) {
    return joined({R"({"id":)", std::to_string(id), R"(,"content":")", text,
                   R"(","special":true,"normalized":false})"});
  };
  file.added = special(next, "<|im_start|>") + "," + special(next + 1, "<|im_end|>");
  file.rest =
      R"(,"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
      R"("decoder":{"type":"ByteLevel"})";
  return file;
}

/// SentencePiece style, as Llama 2: unknown, begin, end, the fallback bytes, then characters and words.
inline small_file metaspace_file(const std::vector<std::string>& characters,
                                 const std::vector<std::pair<std::string, std::string>>& merges) {
  small_file file;
  file.vocabulary = {"<unk>", "<s>", "</s>"};
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    file.vocabulary.push_back(std::string("<0x") + digits[static_cast<std::size_t>(byte >> 4)] +
                              digits[static_cast<std::size_t>(byte & 15)] + ">");
  }
  for (const std::string& text : characters) file.vocabulary.push_back(text);
  file.merges = merges;
  for (const auto& [left, right] : merges) file.vocabulary.push_back(left + right);
  file.model_fields = R"(,"unk_token":"<unk>","byte_fallback":true,"fuse_unk":true)";
  file.added = R"({"id":0,"content":"<unk>","special":true},{"id":1,"content":"<s>","special":true},)"
               R"({"id":2,"content":"</s>","special":true})";
  file.rest =
      R"(,"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
      R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"pre_tokenizer":null,)"
      R"("decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
      R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},)"
      R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
      R"({"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{}})";
  return file;
}

}  // namespace yolk::model::test
