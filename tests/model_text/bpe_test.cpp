#include "model/bpe.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

using namespace yolk;
using namespace yolk::model;

namespace {

/// Tokens are the letters a.. and what random merges make of them.
struct random_model {
  token_table tokens;
  std::vector<std::pair<core::token_id, core::token_id>> merges;
  std::vector<std::string> texts;
  std::vector<core::token_id> all;

  random_model(std::mt19937& random, std::size_t letters, std::size_t merge_count) {
    for (std::size_t i = 0; i < letters; ++i) texts.push_back(std::string(1, static_cast<char>('a' + i)));
    for (std::size_t tries = 0; merges.size() < merge_count && tries < merge_count * 50; ++tries) {
      const auto left = static_cast<core::token_id>(random() % texts.size());
      const auto right = static_cast<core::token_id>(random() % texts.size());
      const std::string text = texts[left] + texts[right];
      bool known = text.size() > 8;
      for (const std::string& other : texts) known = known || other == text;
      if (known) continue;
      merges.emplace_back(left, right);
      texts.push_back(text);
    }
    tokens = token_table(texts.size());
    for (core::token_id id = 0; id < texts.size(); ++id) {
      tokens.set(id, texts[id]);
      all.push_back(id);
    }
  }

  [[nodiscard]] bpe make(std::size_t letters) const {
    merge_table table(merges.size());
    for (std::uint32_t rank = 0; rank < merges.size(); ++rank) {
      table.set(merges[rank].first, merges[rank].second, {rank, static_cast<core::token_id>(letters + rank)});
    }
    return bpe(tokens, all, std::move(table), {.byte_level = true}, std::vector<bool>(texts.size()));
  }

  /// The definition: merge the leftmost pair of the lowest rank, until there is none.
  [[nodiscard]] std::vector<core::token_id> reference(std::string_view word, std::size_t letters) const {
    std::vector<core::token_id> ids;
    for (const char c : word) ids.push_back(static_cast<core::token_id>(c - 'a'));
    for (;;) {
      std::size_t best = merges.size();
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        for (std::size_t rank = 0; rank < best; ++rank) {
          if (merges[rank] == std::pair(ids[i], ids[i + 1])) {
            best = rank;
            at = i;
            break;
          }
        }
      }
      if (best == merges.size()) return ids;
      ids[at] = static_cast<core::token_id>(letters + best);
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
  }
};

}  // namespace

TEST_CASE("short and long words are merged as the definition says") {
  const unsigned seed = std::random_device{}();
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    constexpr std::size_t letters = 3;
    const random_model model(random, letters, 25);
    const bpe encoder = model.make(letters);
    bpe_workspace work;
    for (const std::size_t length : {1, 2, 7, 30, 48, 49, 100, 300}) {
      std::string word;
      for (std::size_t i = 0; i < length; ++i) word.push_back(static_cast<char>('a' + random() % letters));
      std::vector<core::token_id> out;
      encoder.encode(word, work, out);
      CAPTURE(word);
      CHECK(out == model.reference(word, letters));
    }
  }
}

TEST_CASE("work grows no faster than the word: one letter, and letters at random") {
  std::mt19937 random(7);
  const random_model model(random, 2, 40);
  const bpe encoder = model.make(2);
  const auto steps = [&](const std::string& word) {
    bpe_workspace work;
    std::vector<core::token_id> out;
    encoder.encode(word, work, out);
    return work.steps;
  };
  for (const std::size_t length : {std::size_t{1} << 12, std::size_t{1} << 16, std::size_t{1} << 20}) {
    std::string word;
    for (std::size_t i = 0; i < length; ++i) word.push_back(static_cast<char>('a' + random() % 2));
    // A pair is looked at when its word begins, and twice for each merge, of which there are fewer than
    // letters.
    CHECK(steps(word) < 6 * length);
    CHECK(steps(std::string(length, 'a')) < 6 * length);
  }
}

TEST_CASE("a word longer than the limit is cut, with memory for one part at a time") {
  std::mt19937 random(11);
  const random_model model(random, 1, 1);  // "a" and "aa"
  const bpe encoder = model.make(1);
  bpe_workspace work;
  std::vector<core::token_id> out;
  encoder.encode(std::string(2 * bpe::max_word_symbols + 3, 'a'), work, out);
  CHECK(out.size() == bpe::max_word_symbols + 2);
  CHECK(work.symbols.capacity() <= bpe::max_word_symbols);
}
