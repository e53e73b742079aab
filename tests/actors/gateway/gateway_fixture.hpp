#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/http_gateway/http_gateway.hpp"
#include "core/sampling_params.hpp"
#include "kvcache/block_key.hpp"

namespace yolk::tests {

/// The fake model's tokens: a byte each, then these.
inline constexpr core::token_id end_token = 256;
inline constexpr core::token_id start_token = 257;
/// Its text throws, as a tokenizer with a bug would.
inline constexpr core::token_id poison_token = 258;
inline constexpr std::uint32_t vocabulary_size = 259;
/// A prompt with this in it makes the tokenizer throw.
inline constexpr std::string_view poison_text = "POISON";

std::vector<core::token_id> ids_of(std::string_view text);

enum class peer : std::uint8_t { admission, conductor };

/// A generate_request that a scripted peer was sent.
struct seen_request {
  peer who = peer::admission;
  unsigned incarnation = 0;  ///< which of the peers of that kind: 1 is the first
  std::uint64_t leg = 0, request = 0;
  std::uint32_t attempt = 0;
  std::vector<core::token_id> tokens;
  std::uint32_t prompt_length = 0, first_choice = 0, choice_count = 0;
  std::vector<std::uint64_t> seeds;
  core::sampling_params sampling;
  kvcache::block_key root;
};

struct seen_end {
  peer who = peer::admission;
  unsigned incarnation = 0;
  std::uint64_t leg = 0;
  bool cancel = false;
};

enum class finish : std::uint8_t { none, stop, length };
enum class failure : std::uint8_t { refused, worker_lost, preempted, transfer_failed, unavailable, internal };

struct batch {
  std::uint32_t choice = 0;
  std::uint32_t first_index = 0;
  std::vector<core::token_id> tokens;
  tests::finish end = finish::none;
  std::uint32_t cached_tokens = 0;
  bool with_logprobs = false;
};

struct gateway_fixture_options {
  actors::gateway_options gateway = {.port = 0};
  bool with_peers = true;
  bool with_chat = true;
  bool begins_with_start = false;  ///< the tokenizer's special token before each text is start_token
  std::uint32_t context_length = 200;
};

/// A gateway on a free port of its own, with an admission controller and a conductor that do nothing but tell
/// the test what they were sent. Time stands still unless the test turns it. What a test waits for comes
/// within a minute, or an exception fails the test.
class gateway_fixture {
 public:
  explicit gateway_fixture(gateway_fixture_options options = {});
  ~gateway_fixture();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] actors::metrics& recorder();

  /// The next request that this kind of peer gets, or has got.
  seen_request next_request(peer who);
  seen_end next_end(peer who);
  [[nodiscard]] bool nothing_requested(peer who) const;

  void send_tokens(const seen_request& to, const batch& what);
  /// As a leg of another id or attempt would send it.
  void send_tokens_as(const seen_request& to, std::uint64_t leg, std::uint32_t attempt, const batch& what);
  void fail(const seen_request& which, failure reason, std::string_view message = {},
            std::uint32_t retry_after = 0);

  void kill(peer who);
  void kill_gateway();
  /// A new peer in place of the one that is gone, or not yet told of by tell_peers().
  void start(peer who);
  void tell_peers();
  void report_health(bool healthy, std::string_view reason = {});
  void turn_clock(std::chrono::milliseconds by);
  /// Asks the broker something: all that was sent to it before has been handled then. Returns the running
  /// requests.
  std::uint32_t running();
  void start_draining();
  void wait_drained();
  /// Ends what still runs; returns when all of it was told.
  void shut_down();

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace yolk::tests
