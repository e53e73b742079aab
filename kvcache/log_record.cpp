#include "kvcache/log_record.hpp"

#include <bit>
#include <cstring>
#include <type_traits>

#include "core/invariant.hpp"

namespace yolk::kvcache {

static_assert(std::endian::native == std::endian::little, "records are stored little-endian");

namespace {

constexpr std::uint64_t file_magic = 0x31656c69664b6c79;    // "ylKfile1"
constexpr std::uint64_t record_magic = 0x3164726365524b79;  // "yKRecrd1"

/// On disk, before tokens and checksums. No padding between the fields.
struct stored_head {
  std::uint64_t magic = record_magic;
  std::uint64_t checksum = 0;  ///< XXH3-64 of the whole head, this field taken as 0
  std::uint64_t head_bytes = 0;
  std::uint64_t record_bytes = 0;
  record_id id;
  record_id parent_id;
  block_key key;
  block_key parent;
  std::uint64_t file = 0;
  std::uint64_t writer = 0;
  std::uint32_t record = 0;
  std::uint32_t format_version = 0;
  std::uint32_t codec = 0;
  std::uint32_t first_position = 0;
  std::uint32_t generation = 0;
  float key_rotation_base = 0.0f;
  std::uint32_t token_count = 0;
  std::uint32_t layer_count = 0;
};
static_assert(sizeof(stored_head) == 144 && std::is_trivially_copyable_v<stored_head>);

struct stored_file_head {
  std::uint64_t magic = file_magic;
  std::uint64_t checksum = 0;  ///< as a record's
  std::uint64_t number = 0;
  block_key owner;
  segment_layout layout;
  std::uint32_t format = log_file_head::current_format;
};
static_assert(sizeof(stored_file_head) == 64 && std::is_trivially_copyable_v<stored_file_head>);
constexpr std::size_t checksum_offset = 8;
static_assert(offsetof(stored_head, checksum) == checksum_offset &&
              offsetof(stored_file_head, checksum) == checksum_offset);

constexpr std::size_t padded(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::uint64_t checksum_without_itself(std::span<const std::byte> head) {
  // The field is small and in front: what precedes it is a constant that is compared anyway.
  return checksum(head.subspan(checksum_offset + sizeof(std::uint64_t)));
}

void seal(std::span<std::byte> head) {
  const std::uint64_t sum = checksum_without_itself(head);
  std::memcpy(head.data() + checksum_offset, &sum, sizeof sum);
}

template <class Stored>
Stored read_as(std::span<const std::byte> bytes) {
  Stored stored;
  std::memcpy(&stored, bytes.data(), sizeof stored);
  return stored;
}

}  // namespace

record_layout::record_layout(const segment_layout& blocks)
    : block(blocks),
      alignment(blocks.block_bytes() % 4096 == 0 ? 4096 : segment_alignment),
      head_bytes(padded(sizeof(stored_head) + padded(blocks.block_tokens * sizeof(core::token_id), 8) +
                            blocks.layer_count * sizeof(std::uint64_t),
                        alignment)),
      record_bytes(head_bytes + padded(blocks.block_bytes(), alignment)) {}

void encode(const log_file_head& head, std::span<std::byte> out) {
  YOLK_INVARIANT(out.size() == record_layout::file_head_bytes, out.size());
  stored_file_head stored;
  stored.number = head.number;
  stored.owner = head.owner;
  stored.layout = head.layout;
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &stored, sizeof stored);
  seal(out);
}

std::optional<log_file_head> decode_file_head(std::span<const std::byte> bytes) {
  if (bytes.size() != record_layout::file_head_bytes) return std::nullopt;
  const auto stored = read_as<stored_file_head>(bytes);
  if (stored.magic != file_magic || stored.format != log_file_head::current_format ||
      stored.checksum != checksum_without_itself(bytes))
    return std::nullopt;
  return log_file_head{stored.number, stored.owner, stored.layout};
}

void encode(const record_head& head, const record_place& place, const record_layout& layout,
            std::span<std::byte> out) {
  const auto& header = head.header;
  YOLK_INVARIANT(out.size() == layout.head_bytes, out.size(), layout.head_bytes);
  YOLK_INVARIANT(header.tokens.size() == layout.block.block_tokens, header.tokens.size());
  YOLK_INVARIANT(header.layer_checksums.size() == layout.block.layer_count, header.layer_checksums.size());
  stored_head stored;
  stored.head_bytes = layout.head_bytes;
  stored.record_bytes = layout.record_bytes;
  stored.id = head.id;
  stored.parent_id = head.parent_id;
  stored.key = header.key;
  stored.parent = header.parent;
  stored.file = place.file;
  stored.writer = header.writer.value;
  stored.record = place.record;
  stored.format_version = header.format_version;
  stored.codec = static_cast<std::uint32_t>(header.codec);
  stored.first_position = header.first_position;
  stored.generation = header.generation;
  stored.key_rotation_base = header.key_rotation_base;
  stored.token_count = layout.block.block_tokens;
  stored.layer_count = layout.block.layer_count;
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &stored, sizeof stored);
  std::byte* at = out.data() + sizeof stored;
  std::memcpy(at, header.tokens.data(), header.tokens.size() * sizeof(core::token_id));
  at += padded(header.tokens.size() * sizeof(core::token_id), 8);
  std::memcpy(at, header.layer_checksums.data(), header.layer_checksums.size() * sizeof(std::uint64_t));
  seal(out);
}

std::optional<record_head> decode_record_head(std::span<const std::byte> bytes, const record_place& place,
                                              const record_layout& layout) {
  if (bytes.size() != layout.head_bytes) return std::nullopt;
  const auto stored = read_as<stored_head>(bytes);
  if (stored.magic != record_magic || stored.head_bytes != layout.head_bytes ||
      stored.record_bytes != layout.record_bytes || stored.file != place.file ||
      stored.record != place.record || stored.token_count != layout.block.block_tokens ||
      stored.layer_count != layout.block.layer_count || stored.codec > 0xff ||
      stored.checksum != checksum_without_itself(bytes))
    return std::nullopt;
  record_head head{stored.id, stored.parent_id, {}};
  auto& header = head.header;
  header.key = stored.key;
  header.parent = stored.parent;
  header.format_version = stored.format_version;
  header.key_rotation_base = stored.key_rotation_base;
  header.first_position = stored.first_position;
  header.codec = static_cast<segment_codec>(stored.codec);
  header.writer = {stored.writer};
  header.generation = stored.generation;
  header.tokens.resize(layout.block.block_tokens);
  header.layer_checksums.resize(layout.block.layer_count);
  const std::byte* at = bytes.data() + sizeof stored;
  std::memcpy(header.tokens.data(), at, header.tokens.size() * sizeof(core::token_id));
  at += padded(header.tokens.size() * sizeof(core::token_id), 8);
  std::memcpy(header.layer_checksums.data(), at, header.layer_checksums.size() * sizeof(std::uint64_t));
  return head;
}

}  // namespace yolk::kvcache
