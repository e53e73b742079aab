#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

#include "transport/ucx_worker.hpp"

namespace yolk::transport {

struct operation;

enum class message_kind : std::uint16_t { put = 1, get = 2, put_reply = 3, get_reply = 4 };
enum class message_status : std::uint32_t { done = 0, ended = 1, outside = 2 };

/// The header of a UCX active message between two engines, in the machine's order (a peer of another order is
/// told by the magic). put carries `bytes` of payload, get_reply too; put_reply and get carry none.
struct message_header {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  message_kind kind = message_kind::put;
  message_status status = message_status::done;  ///< replies
  std::uint32_t reserved = 0;
  std::uint64_t owner = 0;  ///< requests: the incarnation and nonce of the region that is meant
  std::uint64_t nonce = 0;
  std::uint64_t request = 0;  ///< chosen by the sender of a request, repeated in its reply
  std::uint64_t offset = 0;   ///< in the target's region
  std::uint64_t bytes = 0;
};
static_assert(sizeof(message_header) == 56, "no hidden padding travels");

/// The most payload of one message: with its header it still is one segment of UCX's TCP transport (64 KiB),
/// so that it is copied once, from the receive buffer to the region.
inline constexpr std::uint64_t max_message_payload = 60 * 1024;

/// put and get as messages between the two engines' threads, for peers whose memory is not mapped here. UCX
/// could emulate them itself, but its emulation (1.13) aborts the process of a target whose initiator dies in
/// the middle: it answers on the dead endpoint and takes the refusal for a bug. It also reads and writes
/// whatever address the peer names; here the target checks each request against its own region and
/// incarnation.
///
/// Owned by the engine, outlives its worker; the engine's thread alone uses it.
class ucx_messages {
 public:
  ucx_messages() = default;
  ~ucx_messages() = default;
  ucx_messages(const ucx_messages&) = delete;
  ucx_messages& operator=(const ucx_messages&) = delete;

  /// From now on this engine serves its peers' requests. Before any other call.
  ucs_status_t attach(ucx_worker& worker);
  /// Sends the operation's header (request number and magic are filled in) and payload. UCS_INPROGRESS: the
  /// operation's link hears of the sending's end through `on_sent` and of the reply through
  /// ucx_link::replied.
  ucs_status_t request(ucp_ep_h endpoint, operation& asking, std::span<const std::byte> payload,
                       ucp_send_nbx_callback_t on_sent);
  /// The operation's reply is no longer waited for; if it comes, it is dropped.
  void abandon(const operation& asking);

 private:
  struct reply {
    ucx_messages* sender = nullptr;
    message_header header;
    std::list<reply>::iterator self;
  };

  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t data_bytes, const ucp_am_recv_param_t* parameters);
  static void on_replied(void* request, ucs_status_t status, void* user_data);
  void serve(const message_header& asked, std::span<const std::byte> payload, ucp_ep_h reply_to);
  [[nodiscard]] message_status judge(const message_header& asked, std::size_t payload_bytes) const;
  void take_reply(const message_header& header, std::span<const std::byte> payload);

  ucx_worker* worker_ = nullptr;
  std::uint64_t last_request_ = 0;
  std::unordered_map<std::uint64_t, operation*> waiting_;
  std::list<reply> replies_;
};

}  // namespace yolk::transport
