#include "kvcache/sequence_blocks.hpp"

#include <utility>

#include "core/invariant.hpp"

namespace yolk::kvcache {

sequence_blocks::sequence_blocks(sequence_blocks&& other) noexcept
    : cache_(other.cache_),
      blocks_(std::exchange(other.blocks_, {})),
      token_count_(std::exchange(other.token_count_, 0)),
      copy_source_(std::exchange(other.copy_source_, core::no_block)) {}

sequence_blocks& sequence_blocks::operator=(sequence_blocks&& other) noexcept {
  if (this == &other) return *this;
  release();
  cache_ = other.cache_;
  blocks_ = std::exchange(other.blocks_, {});
  token_count_ = std::exchange(other.token_count_, 0);
  copy_source_ = std::exchange(other.copy_source_, core::no_block);
  return *this;
}

void sequence_blocks::adopt(std::span<const cached_block> prefix) {
  YOLK_INVARIANT(blocks_.empty(), blocks_.size());
  for (const cached_block& block : prefix) blocks_.push_back(block.block);
  token_count_ = static_cast<std::uint32_t>(prefix.size()) * cache_->block_tokens();
}

bool sequence_blocks::shares_partial_block() const {
  return token_count_ % cache_->block_tokens() != 0 && cache_->reference_count(blocks_.back()) > 1;
}

std::uint32_t sequence_blocks::blocks_needed(std::uint32_t count) const {
  if (count == 0) return 0;
  const std::uint64_t positions = std::uint64_t{token_count_} + count;
  const std::uint64_t total = (positions + cache_->block_tokens() - 1) / cache_->block_tokens();
  return static_cast<std::uint32_t>(total - blocks_.size()) + (shares_partial_block() ? 1 : 0);
}

std::optional<sequence_blocks::appended> sequence_blocks::append(std::uint32_t count) {
  YOLK_INVARIANT(copy_source_ == core::no_block, copy_source_);
  YOLK_INVARIANT(std::uint64_t{token_count_} + count <= 0xffffffffu, token_count_, count);
  const bool copies = count > 0 && shares_partial_block();
  const auto fresh = cache_->allocate(blocks_needed(count));
  if (!fresh) return std::nullopt;
  std::span<const core::block_index> rest = *fresh;
  appended step;
  if (copies) {
    copy_source_ = std::exchange(blocks_.back(), rest.front());
    step.copy = {copy_source_, rest.front()};
    rest = rest.subspan(1);
  }
  blocks_.insert(blocks_.end(), rest.begin(), rest.end());
  token_count_ += count;
  return step;
}

void sequence_blocks::copied() {
  if (copy_source_ != core::no_block) cache_->release(std::exchange(copy_source_, core::no_block));
}

sequence_blocks sequence_blocks::fork() const {
  YOLK_INVARIANT(copy_source_ == core::no_block, copy_source_);
  sequence_blocks other(*cache_);
  for (const core::block_index block : blocks_) cache_->add_reference(block);
  other.blocks_ = blocks_;
  other.token_count_ = token_count_;
  return other;
}

std::uint32_t sequence_blocks::publish(block_key root, std::span<const core::token_id> tokens) const {
  YOLK_INVARIANT(tokens.size() >= token_count_, tokens.size(), token_count_);
  const std::uint32_t count = full_block_count();
  return cache_->insert(root, tokens.first(std::size_t{count} * cache_->block_tokens()),
                        blocks().first(count));
}

void sequence_blocks::release() {
  copied();
  // From the end: then no release has to walk up the tree.
  while (!blocks_.empty()) {
    cache_->release(blocks_.back());
    blocks_.pop_back();
  }
  token_count_ = 0;
}

}  // namespace yolk::kvcache
