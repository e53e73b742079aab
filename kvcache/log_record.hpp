#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/ids.hpp"
#include "kvcache/block_header.hpp"
#include "kvcache/block_key.hpp"
#include "kvcache/segment_layout.hpp"

// What the files of an SSD log hold. A file is a file header, then records of one size: a head, then the
// block's payload. All numbers are little-endian, each part is padded to the log's alignment.
namespace yolk::kvcache {

/// Names one prefix within a log for ever. {0, 0} = none.
struct record_id {
  std::uint64_t log = 0;     ///< incarnation of the log that first wrote the prefix
  std::uint64_t number = 0;  ///< counts from 1
  friend auto operator<=>(const record_id&, const record_id&) = default;
};

/// Where a record lies.
struct record_place {
  std::uint64_t file = 0;    ///< the file's number
  std::uint32_t record = 0;  ///< index within the file
  friend bool operator==(const record_place&, const record_place&) = default;
};

/// What precedes a payload. A record continues exactly the prefix that `parent_id` names: a key alone could
/// be another prefix's by then.
struct record_head {
  record_id id;
  record_id parent_id;  ///< none: the prompt's first block, header.parent is its root
  block_header header;
};

/// What a file says of itself: whose blocks, in which layout.
struct log_file_head {
  static constexpr std::uint32_t current_format = 1;
  std::uint64_t number = 0;
  block_key owner;  ///< make_root of the model, KV type and format, without tenant
  segment_layout layout;
};

/// Sizes of a log's records, the same for all blocks of a layout.
struct record_layout {
  explicit record_layout(const segment_layout& blocks);
  segment_layout block;
  std::size_t alignment;     ///< 4,096 where blocks are a multiple of that, else 64
  std::size_t head_bytes;    ///< padded
  std::size_t record_bytes;  ///< head and payload, padded
  [[nodiscard]] std::uint64_t offset(std::uint32_t record) const {
    return file_head_bytes + std::uint64_t{record} * record_bytes;
  }
  static constexpr std::size_t file_head_bytes = 4096;
};

/// Fills `out` (file_head_bytes).
void encode(const log_file_head& head, std::span<std::byte> out);
/// Nothing when it is damaged, of another format, or no file of a log.
[[nodiscard]] std::optional<log_file_head> decode_file_head(std::span<const std::byte> bytes);

/// Fills `out` (layout.head_bytes). The head is bound to its place: a copy elsewhere is no record.
void encode(const record_head& head, const record_place& place, const record_layout& layout,
            std::span<std::byte> out);
/// Nothing when no intact head of this place and layout is there. The payload is not looked at.
[[nodiscard]] std::optional<record_head> decode_record_head(std::span<const std::byte> bytes,
                                                            const record_place& place,
                                                            const record_layout& layout);

}  // namespace yolk::kvcache
