#include "transport/ucx_link.hpp"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "core/invariant.hpp"
#include "transport/live_regions.hpp"

namespace yolk::transport {
namespace {

/// What is copied or handed to UCX in one go: about 0.3 ms at the speed of memory.
constexpr std::uint64_t max_direct_piece_bytes = std::uint64_t{4} << 20;

}  // namespace

result<std::unique_ptr<ucx_link>> ucx_link::open(const surroundings& in, const target& to) {
  std::unique_ptr<ucx_link> link(new ucx_link(in, to));
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(to.keys.worker_address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = &ucx_link::on_peer_failure;
  parameters.err_handler.arg = link.get();
  if (const auto status = ucp_ep_create(in.worker.handle(), &parameters, &link->endpoint_)) {
    return core::failure<errc>{errc::peer_unreachable,
                               std::string("no endpoint: ") + ucs_status_string(status)};
  }
  ucs_status_t status = UCS_ERR_CONNECTION_RESET;
  const bool held = live_regions::hold(to.keys.nonce, [&] {
    status = ucp_ep_rkey_unpack(link->endpoint_, to.keys.remote_key.data(), &link->key_);
    if (status == UCS_OK) link->choose_mode();
  });
  if (!held || status != UCS_OK) {
    // The endpoint exists: the caller closes the link as any other.
    link->key_ = nullptr;
    link->peer_failure_ = status;
  }
  return link;
}

void ucx_link::choose_mode() {
  mode_ = in_.access == access_path::native ? mode::native : mode::messages;
  void* header = nullptr;
  if (in_.access != access_path::automatic ||
      ucp_rkey_ptr(key_, to_.base_address - sizeof(region_header), &header) != UCS_OK) {
    return;
  }
  mode_ = mode::mapped;
  mapped_ = static_cast<std::byte*>(header) + sizeof(region_header);
}

std::uint64_t ucx_link::max_piece_bytes() const {
  return mode_ == mode::messages ? max_message_payload : max_direct_piece_bytes;
}

// --- issuing
// --------------------------------------------------------------------------------------------------------

ucs_status_t ucx_link::put(transfer* owner, std::span<const std::byte> local, std::uint64_t remote_offset) {
  if (mode_ == mode::mapped) {
    std::memcpy(mapped_ + remote_offset, local.data(), local.size());
    return UCS_OK;
  }
  if (mode_ == mode::messages) {
    message_header with;
    with.kind = message_kind::put;
    with.offset = remote_offset;
    with.bytes = local.size();
    return ask(owner, with, local, nullptr);
  }
  auto with = parameters(prepare(owner));
  with.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  with.memh = in_.worker.memory();
  return issued(
      ucp_put_nbx(endpoint_, local.data(), local.size(), to_.base_address + remote_offset, key_, &with));
}

ucs_status_t ucx_link::get(transfer* owner, std::span<std::byte> local, std::uint64_t remote_offset) {
  if (mode_ == mode::mapped) {
    std::memcpy(local.data(), mapped_ + remote_offset, local.size());
    return UCS_OK;
  }
  if (mode_ == mode::messages) {
    message_header with;
    with.kind = message_kind::get;
    with.offset = remote_offset;
    with.bytes = local.size();
    return ask(owner, with, {}, local.data());
  }
  auto with = parameters(prepare(owner));
  with.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  with.memh = in_.worker.memory();
  return issued(
      ucp_get_nbx(endpoint_, local.data(), local.size(), to_.base_address + remote_offset, key_, &with));
}

ucs_status_t ucx_link::flush(transfer* owner) {
  // A message counts as done when its target has answered that the bytes lie in place. What was copied is
  // visible to whoever hears of it later: the way by which he hears orders memory.
  if (mode_ != mode::native) return UCS_OK;
  const auto with = parameters(prepare(owner));
  return issued(ucp_ep_flush_nbx(endpoint_, &with));
}

ucs_status_t ucx_link::confirm(transfer* owner) {
  return mode_ == mode::messages ? UCS_OK : read_header(owner);  // each reply to a message said as much
}

ucs_status_t ucx_link::greet() {
  if (mode_ != mode::messages) return read_header(nullptr);
  message_header with;
  with.kind = message_kind::get;
  return ask(nullptr, with, {}, nullptr);
}

ucs_status_t ucx_link::read_header(transfer* owner) {
  if (mode_ == mode::mapped) return is_mapped_alive() ? UCS_OK : UCS_ERR_REJECTED;
  operation& prepared = prepare(owner);
  prepared.reads_header = true;
  const auto with = parameters(prepared);
  const auto status = issued(ucp_get_nbx(endpoint_, &prepared.seen, sizeof prepared.seen,
                                         to_.base_address - sizeof(region_header), key_, &with));
  return status == UCS_OK && !is_alive(prepared.seen) ? UCS_ERR_REJECTED : status;
}

bool ucx_link::has_seen_the_end() const {
  return mode_ == mode::mapped && !is_mapped_alive();
}

bool ucx_link::is_mapped_alive() const {
  auto& header = *reinterpret_cast<region_header*>(mapped_ - sizeof(region_header));
  region_header seen;
  seen.magic = header.magic;
  seen.owner = header.owner;
  seen.base_address = header.base_address;
  seen.length_bytes = header.length_bytes;
  // It changes nothing, but unlike a load it comes after the loads of the data before it.
  seen.nonce = std::atomic_ref(header.nonce).fetch_or(0, std::memory_order_seq_cst);
  return is_alive(seen);
}

bool ucx_link::is_alive(const region_header& seen) const {
  return seen.magic == region_magic && seen.owner == to_.owner && seen.nonce == to_.keys.nonce &&
         seen.base_address == to_.base_address && seen.length_bytes == to_.length_bytes;
}

ucs_status_t ucx_link::ask(transfer* owner, message_header with, std::span<const std::byte> payload,
                           std::byte* destination) {
  operation& asking = prepare(owner);
  asking.message = with;
  asking.message.owner = to_.owner;
  asking.message.nonce = to_.keys.nonce;
  asking.destination = destination;
  const auto status = in_.messages.request(endpoint_, asking, payload, &ucx_link::on_operation);
  if (status == UCS_INPROGRESS) open_.splice(open_.end(), spare_, spare_.begin());
  return status;
}

operation& ucx_link::prepare(transfer* owner) {
  YOLK_INVARIANT(!closing_ && endpoint_ != nullptr && key_ != nullptr);
  if (spare_.empty()) spare_.emplace_back();
  operation& prepared = spare_.front();
  prepared = operation{};
  prepared.link = this;
  prepared.owner = owner;
  prepared.self = spare_.begin();
  return prepared;
}

ucp_request_param_t ucx_link::parameters(operation& operation) const {
  ucp_request_param_t out{};
  out.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  out.cb.send = &ucx_link::on_operation;
  out.user_data = &operation;
  return out;
}

ucs_status_t ucx_link::issued(ucs_status_ptr_t request) {
  if (request == nullptr) return UCS_OK;
  if (UCS_PTR_IS_ERR(request)) return UCS_PTR_STATUS(request);
  spare_.front().is_sending = true;
  open_.splice(open_.end(), spare_, spare_.begin());
  return UCS_INPROGRESS;
}

// --- endings
// --------------------------------------------------------------------------------------------------------

void ucx_link::end_if_complete(operation& open) {
  if (open.is_sending || open.awaits_reply) return;
  if (open.status == UCS_OK && open.reads_header && !is_alive(open.seen)) open.status = UCS_ERR_REJECTED;
  finished_.splice(finished_.end(), open_, open.self);
  report();
}

void ucx_link::on_operation(void* request, ucs_status_t status, void* user_data) {
  auto& open = *static_cast<operation*>(user_data);
  ucx_link& link = *open.link;
  open.is_sending = false;
  if (status != UCS_OK) {
    open.status = status;
    // What was not sent will not be answered.
    if (std::exchange(open.awaits_reply, false)) link.in_.messages.abandon(open);
  }
  link.end_if_complete(open);
  ucp_request_free(request);
}

void ucx_link::replied(operation& asked, ucs_status_t status) {
  asked.awaits_reply = false;
  if (asked.status == UCS_OK) asked.status = status;
  end_if_complete(asked);
}

void ucx_link::on_closed(void* request, ucs_status_t, void* user_data) {
  ucx_link& link = *static_cast<ucx_link*>(user_data);
  link.close_request_ = nullptr;
  link.report();
  ucp_request_free(request);
}

void ucx_link::on_peer_failure(void* user_data, ucp_ep_h, ucs_status_t status) {
  ucx_link& link = *static_cast<ucx_link*>(user_data);
  link.peer_failure_ = status == UCS_OK ? UCS_ERR_CONNECTION_RESET : status;
  link.report();
}

void ucx_link::report() {
  if (reported_) return;
  reported_ = true;
  in_.ripe.push_back(this);
}

std::list<operation> ucx_link::take_finished() {
  reported_ = false;
  return std::exchange(finished_, {});
}

void ucx_link::close() {
  if (closing_) return;
  closing_ = true;
  for (auto at = open_.begin(); at != open_.end();) {
    operation& open = *at++;  // it may leave the list
    if (!std::exchange(open.awaits_reply, false)) continue;
    in_.messages.abandon(open);
    if (open.status == UCS_OK) open.status = UCS_ERR_CANCELED;
    end_if_complete(open);
  }
  ucp_request_param_t with{};
  with.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  with.cb.send = &ucx_link::on_closed;
  with.user_data = this;
  with.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const auto request = ucp_ep_close_nbx(endpoint_, &with);
  // An error here says that the endpoint was disconnected already; it is gone either way.
  if (UCS_PTR_IS_PTR(request)) close_request_ = request;
  report();
}

void ucx_link::disown_operations() {
  for (operation& open : open_) open.owner = nullptr;
}

void ucx_link::release() {
  if (key_ != nullptr) ucp_rkey_destroy(key_);
  key_ = nullptr;
}

}  // namespace yolk::transport
