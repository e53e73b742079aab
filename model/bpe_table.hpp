#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"

namespace yolk::model {

inline constexpr core::token_id no_token = 0xffffffffu;

/// Token ids and their bytes, both ways. One arena instead of a string a token. Built once, then read only.
class token_table {
 public:
  /// Ids are `id` < id_count; those never set have no bytes.
  explicit token_table(std::size_t id_count = 0) : entries_(id_count) {}
  void set(core::token_id id, std::string_view bytes);
  /// After the last set(): makes find() work for the ids that were set with `set`.
  void index(const std::vector<core::token_id>& ids);

  [[nodiscard]] std::string_view bytes(core::token_id id) const {
    if (id >= entries_.size()) return {};
    return std::string_view(arena_).substr(entries_[id].offset, entries_[id].length);
  }
  [[nodiscard]] core::token_id find(std::string_view wanted) const;
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct entry {
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
  };
  struct slot {
    std::uint32_t hash = 0;
    core::token_id id = no_token;
  };
  std::string arena_;
  std::vector<entry> entries_;
  std::vector<slot> slots_;  ///< open addressing, a power of two, at most half full
};

/// (left, right) → (rank, result) of the merges. Built once, then read only.
class merge_table {
 public:
  struct merge {
    std::uint32_t rank = 0xffffffffu;  ///< lower goes first; the maximum = there is no such merge
    core::token_id result = no_token;
  };
  explicit merge_table(std::size_t merge_count = 0);
  /// A pair that is already there gets the later rank, as in Hugging Face's tokenizers.
  void set(core::token_id left, core::token_id right, merge value);
  [[nodiscard]] merge find(core::token_id left, core::token_id right) const;
  template <class Visit>
  void each(const Visit& visit) const {
    for (const slot& slot : slots_) {
      if (slot.value.result != no_token) visit(slot.value);
    }
  }

 private:
  struct slot {
    std::uint64_t key = ~0ull;
    merge value;
  };
  [[nodiscard]] std::size_t place(std::uint64_t key) const;
  std::vector<slot> slots_;
};

}  // namespace yolk::model
