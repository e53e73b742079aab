#include "transport/ucx_messages.hpp"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <array>
#include <cstring>
#include <utility>

#include "transport/ucx_link.hpp"

namespace yolk::transport {
namespace {

constexpr std::uint32_t message_magic = 0x4d424b59;  // "YKBM"
constexpr std::uint16_t message_version = 1;
constexpr unsigned message_id = 1;
/// Replies that UCX has not sent yet. A peer has at most max_open_operations requests open; whoever exceeds
/// this limit with all its peers together lets requests go unanswered, and their deadlines end them.
constexpr std::size_t max_open_replies = std::size_t{1} << 18;

// A message orders memory between its sender and its receiver. ThreadSanitizer does not see that when both
// are in one process (its tests), so it is told.
#ifdef __SANITIZE_THREAD__
std::array<char, 64> sync_points;
void sent_word_of(std::uint64_t nonce) {
  __tsan_release(&sync_points[nonce % sync_points.size()]);
}
void got_word_of(std::uint64_t nonce) {
  __tsan_acquire(&sync_points[nonce % sync_points.size()]);
}
#else
void sent_word_of(std::uint64_t) {}
void got_word_of(std::uint64_t) {}
#endif

}  // namespace

ucs_status_t ucx_messages::attach(ucx_worker& worker) {
  worker_ = &worker;
  ucp_am_handler_param_t handler{};
  handler.field_mask =
      UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = message_id;
  handler.cb = &ucx_messages::on_message;
  handler.arg = this;
  return ucp_worker_set_am_recv_handler(worker.handle(), &handler);
}

ucs_status_t ucx_messages::request(ucp_ep_h endpoint, operation& asking, std::span<const std::byte> payload,
                                   ucp_send_nbx_callback_t on_sent) {
  asking.message.magic = message_magic;
  asking.message.version = message_version;
  asking.message.request = ++last_request_;
  ucp_request_param_t with{};
  with.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  with.cb.send = on_sent;
  with.user_data = &asking;
  with.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  asking.awaits_reply = true;
  sent_word_of(asking.message.nonce);
  waiting_.emplace(asking.message.request, &asking);
  const auto sending = ucp_am_send_nbx(endpoint, message_id, &asking.message, sizeof asking.message,
                                       payload.data(), payload.size(), &with);
  if (UCS_PTR_IS_ERR(sending)) {
    abandon(asking);
    return UCS_PTR_STATUS(sending);
  }
  asking.is_sending = sending != nullptr;
  return UCS_INPROGRESS;
}

void ucx_messages::abandon(const operation& asking) {
  waiting_.erase(asking.message.request);
}

ucs_status_t ucx_messages::on_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                      std::size_t data_bytes, const ucp_am_recv_param_t* parameters) {
  message_header received;
  // What is not from an engine of this version is dropped; no engine sends by rendezvous.
  if (header_bytes != sizeof received || (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
    return UCS_OK;
  std::memcpy(&received, header, sizeof received);
  if (received.magic != message_magic || received.version != message_version) return UCS_OK;
  auto& messages = *static_cast<ucx_messages*>(self);
  const std::span payload(static_cast<const std::byte*>(data), data_bytes);
  switch (received.kind) {
    case message_kind::put:
    case message_kind::get:
      if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0) {
        messages.serve(received, payload, parameters->reply_ep);
      }
      break;
    case message_kind::put_reply:
    case message_kind::get_reply:
      messages.take_reply(received, payload);
      break;
  }
  return UCS_OK;
}

message_status ucx_messages::judge(const message_header& asked, std::size_t payload_bytes) const {
  if (!worker_->is_named_by(asked.owner, asked.nonce)) return message_status::ended;
  const std::uint64_t length = worker_->region().size();
  if (asked.bytes > max_message_payload || asked.bytes > length || asked.offset > length - asked.bytes) {
    return message_status::outside;
  }
  if (payload_bytes != (asked.kind == message_kind::put ? asked.bytes : 0)) return message_status::outside;
  return message_status::done;
}

void ucx_messages::serve(const message_header& asked, std::span<const std::byte> payload, ucp_ep_h reply_to) {
  if (replies_.size() >= max_open_replies) return;
  got_word_of(asked.nonce);
  const auto status = judge(asked, payload.size());
  std::span<std::byte> meant;
  if (status == message_status::done) meant = worker_->region().subspan(asked.offset, asked.bytes);

  reply& answer = replies_.emplace_front();
  answer.sender = this;
  answer.self = replies_.begin();
  answer.header = asked;
  answer.header.status = status;
  std::span<const std::byte> content;
  if (asked.kind == message_kind::put) {
    answer.header.kind = message_kind::put_reply;
    if (!meant.empty()) std::memcpy(meant.data(), payload.data(), meant.size());
  } else {
    answer.header.kind = message_kind::get_reply;
    content = meant;
  }
  sent_word_of(asked.nonce);
  ucp_request_param_t with{};
  with.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  with.cb.send = &ucx_messages::on_replied;
  with.user_data = &answer;
  with.flags = UCP_AM_SEND_FLAG_EAGER;
  // The endpoint is UCX's, and only certain to exist during this call: so the answer goes out now or never.
  const auto sending = ucp_am_send_nbx(reply_to, message_id, &answer.header, sizeof answer.header,
                                       content.data(), content.size(), &with);
  sent_word_of(asked.nonce);  // again: sending has read the region
  if (!UCS_PTR_IS_PTR(sending)) replies_.erase(answer.self);
}

void ucx_messages::on_replied(void* request, ucs_status_t, void* user_data) {
  auto& sent = *static_cast<reply*>(user_data);
  sent_word_of(sent.header.nonce);
  sent.sender->replies_.erase(sent.self);
  ucp_request_free(request);
}

void ucx_messages::take_reply(const message_header& header, std::span<const std::byte> payload) {
  const auto found = waiting_.find(header.request);
  if (found == waiting_.end()) return;  // its transfer has ended
  operation& asked = *found->second;
  waiting_.erase(found);
  got_word_of(asked.message.nonce);
  const bool is_get = asked.message.kind == message_kind::get;
  ucs_status_t status = UCS_ERR_REJECTED;
  if (header.status == message_status::outside) status = UCS_ERR_OUT_OF_RANGE;
  if (header.status == message_status::done) {
    const bool fits = header.kind == (is_get ? message_kind::get_reply : message_kind::put_reply) &&
                      payload.size() == (is_get ? asked.message.bytes : 0);
    status = fits ? UCS_OK : UCS_ERR_OUT_OF_RANGE;
    if (fits && !payload.empty()) std::memcpy(asked.destination, payload.data(), payload.size());
  }
  asked.link->replied(asked, status);
}

}  // namespace yolk::transport
