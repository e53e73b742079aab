#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "kvcache/ssd_log.hpp"
#include "tests/kvcache/temporary_folder.hpp"

// What tests of the SSD log share: an owner's thread, and blocks whose bytes follow
// from their prefix, so that a wrong one always shows.
namespace yolk::tests {

/// Runs what the log tells its owner, on the test's thread.
class owner_loop {
 public:
  [[nodiscard]] kvcache::ssd_log::poster poster() {
    return [this](std::function<void()> function) {
      {
        const std::lock_guard lock(mutex_);
        functions_.push_back(std::move(function));
      }
      wake_.notify_one();
    };
  }
  /// Until `done`; fails the test when it does not come.
  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        REQUIRE(wake_.wait_for(lock, std::chrono::seconds(60), [this] { return !functions_.empty(); }));
        next = std::move(functions_.front());
        functions_.pop_front();
      }
      next();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> functions_;
};

inline constexpr kvcache::segment_layout small_layout{
    .layer_count = 2, .kv_head_count = 1, .head_dim = 8, .block_tokens = 4, .element_bytes = 2};
inline const kvcache::block_key test_owner =
    kvcache::make_root({.model = "m", .kv_dtype = "bf16", .block_tokens = 4});
inline const kvcache::block_key test_root =
    kvcache::make_root({.tenant = "t", .model = "m", .kv_dtype = "bf16", .block_tokens = 4});

/// "ab": a block of a's, then a block of b's.
inline std::vector<core::token_id> prompt_of(const std::string& blocks) {
  std::vector<core::token_id> tokens;
  for (const char letter : blocks)
    tokens.insert(tokens.end(), small_layout.block_tokens, static_cast<core::token_id>(letter));
  return tokens;
}

/// The bytes of the block with this key.
inline std::vector<std::byte> payload_of(kvcache::block_key key) {
  core::random_source random(key.low);
  std::vector<std::byte> bytes(small_layout.block_bytes());
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// The last block of `blocks`.
inline kvcache::block_header header_of(const std::string& blocks, kvcache::block_key root = test_root) {
  const auto tokens = prompt_of(blocks);
  const auto keys = kvcache::keys_of(root, tokens, small_layout.block_tokens);
  return {.key = keys.back(),
          .parent = keys.size() > 1 ? keys[keys.size() - 2] : root,
          .tokens = {tokens.end() - small_layout.block_tokens, tokens.end()},
          .key_rotation_base = 10000.0f,
          .first_position = static_cast<std::uint32_t>(tokens.size()) - small_layout.block_tokens,
          .layer_checksums = kvcache::layer_checksums(payload_of(keys.back()), small_layout),
          .writer = {77}};
}

enum class io_kind : std::uint8_t { uring, threads };

inline std::unique_ptr<kvcache::io_backend> make_backend(io_kind kind) {
  if (kind == io_kind::uring)
    if (auto ring = kvcache::make_uring_backend()) return std::move(ring).value();
  return kvcache::make_thread_backend(2);
}

/// A log and its owner.
class test_log {
 public:
  struct shape {
    std::uint64_t byte_limit = std::uint64_t{1} << 20;
    std::uint64_t file_bytes = 0;
    std::uint64_t max_saving_bytes = std::uint64_t{1} << 20;
    kvcache::block_key owner = test_owner;
    std::uint64_t incarnation = 1;
    kvcache::io_queue_limits io{};
  };

  test_log(const std::filesystem::path& folder, const shape& asked,
           std::unique_ptr<kvcache::io_backend> backend) {
    auto opened = kvcache::ssd_log::open({.folder = folder,
                                          .byte_limit = asked.byte_limit,
                                          .file_bytes = asked.file_bytes,
                                          .layout = small_layout,
                                          .owner = asked.owner,
                                          .incarnation = {asked.incarnation},
                                          .max_saving_bytes = asked.max_saving_bytes,
                                          .io = asked.io},
                                         std::move(backend));
    REQUIRE_MESSAGE(opened, opened.error().message);
    log = std::move(opened).value();
    log->attach(owner.poster());
  }
  test_log(const std::filesystem::path& folder, const shape& asked, io_kind kind = io_kind::threads)
      : test_log(folder, asked, make_backend(kind)) {}

  /// The last block of `blocks`; whether it was saved.
  bool save(const std::string& blocks, kvcache::block_key root = test_root) {
    const auto header = header_of(blocks, root);
    const auto bytes = payload_of(header.key);
    std::optional<bool> saved;
    const auto outcome = log->save(header, bytes, [&](bool done) { saved = done; });
    if (outcome != kvcache::ssd_log::save_outcome::started) return false;
    owner.run_until([&] { return saved.has_value(); });
    return *saved;
  }
  /// All blocks of a chain; how many were saved.
  std::size_t save_chain(const std::string& blocks, kvcache::block_key root = test_root) {
    std::size_t saved = 0;
    for (std::size_t end = 1; end <= blocks.size(); ++end) saved += save(blocks.substr(0, end), root) ? 1 : 0;
    return saved;
  }
  [[nodiscard]] std::size_t found(const std::string& blocks, std::size_t skip = 0,
                                  kvcache::block_key root = test_root) const {
    return log->match(root, prompt_of(blocks), skip, 9999).size();
  }
  /// What reading the block gives: its bytes, if it gives any.
  std::optional<std::vector<std::byte>> read(kvcache::block_key key) {
    std::vector<std::byte> bytes(small_layout.block_bytes());
    std::optional<std::optional<kvcache::block_header>> header;
    if (!log->read(key, bytes,
                   [&](std::optional<kvcache::block_header> given) { header = std::move(given); }))
      return std::nullopt;
    owner.run_until([&] { return header.has_value(); });
    if (!*header) return std::nullopt;
    CHECK((*header)->key == key);
    CHECK((*header)->key_rotation_base == 10000.0f);
    return bytes;
  }
  /// Reads all that is found of a prompt, fails the test if any of it is wrong; how many could be read.
  std::size_t read_right(const std::string& blocks) {
    std::size_t right = 0;
    for (const auto& key : log->match(test_root, prompt_of(blocks), 0, 9999)) {
      const auto bytes = read(key);
      if (!bytes) break;
      CHECK(*bytes == payload_of(key));
      ++right;
    }
    return right;
  }

  owner_loop owner;
  std::unique_ptr<kvcache::ssd_log> log;  // ends first
};

}  // namespace yolk::tests
