#include "model/bpe.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "model/unicode_text.hpp"

namespace yolk::model {

namespace {

constexpr std::string_view metaspace = "\xE2\x96\x81";
constexpr std::uint32_t no_rank = 0xffffffffu;
constexpr std::uint32_t nowhere = 0xffffffffu;
/// Up to here the plain search for the lowest rank beats the heap.
constexpr std::size_t short_word = 48;

/// Where the next word begins: at a metaspace that follows something else, when no token can reach across it.
std::size_t next_break(std::string_view text, std::size_t from) {
  std::size_t at = from;
  while (text.substr(at, metaspace.size()) == metaspace) at += metaspace.size();
  const std::size_t found = text.find(metaspace, at);
  return found == std::string_view::npos ? text.size() : found;
}

/// The longest prefix of at most `limit` bytes that does not end inside a character.
std::size_t cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text.size();
  std::size_t end = limit;
  while (end > limit - 4 && (static_cast<std::uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

bool later(const bpe_workspace::candidate& a, const bpe_workspace::candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

bpe::bpe(token_table tokens, const std::vector<core::token_id>& indexed, merge_table merges,
         bpe_options options, std::vector<bool> special)
    : tokens_(std::move(tokens)),
      merges_(std::move(merges)),
      options_(options),
      special_(std::move(special)),
      itself_(std::make_unique<std::atomic<std::uint8_t>[]>(tokens_.size())) {
  tokens_.index(indexed);
  constexpr std::string_view digits = "0123456789ABCDEF";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::string fallback = std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + '>';
    const char one = static_cast<char>(byte);
    bytes_[byte] = options_.byte_level ? tokens_.find({&one, 1}) : tokens_.find(fallback);
    if (byte < 128) ascii_[byte] = tokens_.find({&one, 1});
  }
  find_word_breaks();
}

void bpe::find_word_breaks() {
  if (options_.byte_level || options_.ignore_merges || tokens_.find(metaspace) == no_token) return;
  breaks_at_metaspace_ = true;
  merges_.each([&](const merge_table::merge& merge) {
    const std::string_view bytes = tokens_.bytes(merge.result);
    if (next_break(bytes, 0) != bytes.size()) breaks_at_metaspace_ = false;
  });
}

void bpe::encode(std::string_view word, bpe_workspace& work, std::vector<core::token_id>& out) const {
  while (!word.empty()) {
    const std::size_t whole = breaks_at_metaspace_ ? next_break(word, 0) : word.size();
    const std::size_t length = cut(word.substr(0, whole), max_word_symbols);
    encode_part(word.substr(0, length), work, out);
    word.remove_prefix(length);
  }
}

void bpe::encode_part(std::string_view part, bpe_workspace& work, std::vector<core::token_id>& out) const {
  const core::token_id known = tokens_.find(part);
  if (known != no_token && !special_[known] && (options_.ignore_merges || makes_itself(known, work))) {
    out.push_back(known);
    return;
  }
  work.ids.clear();
  add_symbols(part, work.ids);
  merge(work);
  out.insert(out.end(), work.ids.begin(), work.ids.end());
}

bool bpe::makes_itself(core::token_id id, bpe_workspace& work) const {
  std::uint8_t state = itself_[id].load(std::memory_order_relaxed);
  if (state == 0) {
    work.ids.clear();
    add_symbols(tokens_.bytes(id), work.ids);
    merge(work);
    state = work.ids.size() == 1 && work.ids.front() == id ? 1 : 2;
    itself_[id].store(state, std::memory_order_relaxed);
  }
  return state == 1;
}

core::token_id bpe::character(std::string_view bytes) const {
  if (bytes.size() == 1)
    return static_cast<std::uint8_t>(bytes[0]) < 128 ? ascii_[static_cast<std::uint8_t>(bytes[0])] : no_token;
  return tokens_.find(bytes);
}

bool bpe::add_bytes(std::string_view bytes, std::vector<core::token_id>& ids) const {
  const auto token = [&](char byte) { return bytes_[static_cast<std::uint8_t>(byte)]; };
  if (std::any_of(bytes.begin(), bytes.end(), [&](char byte) { return token(byte) == no_token; }))
    return false;
  for (const char byte : bytes) ids.push_back(token(byte));
  return true;
}

void bpe::add_symbols(std::string_view part, std::vector<core::token_id>& ids) const {
  bool after_unknown = false;
  for (std::size_t at = 0; at < part.size();) {
    const utf8_step step = options_.byte_level ? utf8_step{0, 1, true, false} : utf8_at(part, at);
    const std::string_view bytes = part.substr(at, step.length);
    at += step.length;
    core::token_id id = no_token;
    if (options_.byte_level) {
      id = bytes_[static_cast<std::uint8_t>(bytes[0])];
    } else if (step.valid) {
      id = character(bytes);
    }
    // A special token of one character is not to be had by writing that character.
    if (id != no_token && !special_[id]) {
      ids.push_back(id);
      after_unknown = false;
    } else if (!options_.byte_level && options_.byte_fallback && add_bytes(bytes, ids)) {
      after_unknown = false;
    } else if (options_.unknown) {
      if (!(after_unknown && options_.fuse_unknown)) ids.push_back(*options_.unknown);
      after_unknown = true;
    }
  }
}

void bpe::merge(bpe_workspace& work) const {
  if (work.ids.size() < 2) return;
  if (work.ids.size() <= short_word) {
    merge_short(work);
  } else {
    merge_long(work);
  }
}

void bpe::merge_short(bpe_workspace& work) const {
  auto& ids = work.ids;
  auto& ranks = work.ranks;
  auto& results = work.results;
  std::size_t count = ids.size();
  ranks.resize(count);
  results.resize(count);
  const auto look = [&](std::size_t i) {
    const merge_table::merge merge = i + 1 < count ? merges_.find(ids[i], ids[i + 1]) : merge_table::merge{};
    ranks[i] = merge.rank;
    results[i] = merge.result;
    ++work.steps;
  };
  for (std::size_t i = 0; i < count; ++i) look(i);
  while (count > 1) {
    const auto lowest = static_cast<std::size_t>(
        std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count)) - ranks.begin());
    work.steps += count;
    if (ranks[lowest] == no_rank) break;
    ids[lowest] = results[lowest];
    for (std::size_t i = lowest + 1; i + 1 < count; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      results[i] = results[i + 1];
    }
    --count;
    look(lowest);
    if (lowest > 0) look(lowest - 1);
  }
  ids.resize(count);
}

void bpe::merge_long(bpe_workspace& work) const {
  const auto count = static_cast<std::uint32_t>(work.ids.size());
  auto& symbols = work.symbols;
  auto& heap = work.heap;
  symbols.resize(count);
  heap.clear();
  const auto look = [&](std::uint32_t left, std::uint32_t right) {
    const merge_table::merge merge = merges_.find(symbols[left].id, symbols[right].id);
    ++work.steps;
    if (merge.rank == no_rank) return false;
    heap.push_back({merge.rank, left, merge.result});
    return true;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i] = {work.ids[i], i == 0 ? nowhere : i - 1, i + 1 == count ? nowhere : i + 1};
  }
  for (std::uint32_t i = 0; i + 1 < count; ++i) look(i, i + 1);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const bpe_workspace::candidate best = heap.back();
    heap.pop_back();
    ++work.steps;
    bpe_workspace::symbol& left = symbols[best.position];
    // What was looked up may be gone: its left part merged away, its right part grown.
    if (left.id == no_token || left.next == nowhere) continue;
    bpe_workspace::symbol& right = symbols[left.next];
    if (merges_.find(left.id, right.id).result != best.result) continue;
    left.id = best.result;
    right.id = no_token;
    left.next = right.next;
    if (left.next != nowhere) symbols[left.next].previous = best.position;
    if (left.previous != nowhere && look(left.previous, best.position))
      std::push_heap(heap.begin(), heap.end(), later);
    if (left.next != nowhere && look(best.position, left.next))
      std::push_heap(heap.begin(), heap.end(), later);
  }
  work.ids.clear();
  for (std::uint32_t at = 0; at != nowhere; at = symbols[at].next) work.ids.push_back(symbols[at].id);
}

}  // namespace yolk::model
