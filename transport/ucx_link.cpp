#include "transport/ucx_link.hpp"

#include <string>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::transport {

result<std::unique_ptr<ucx_link>> ucx_link::open(ucx_worker& worker, const target& to,
                                                 std::vector<ucx_link*>& ripe) {
  std::unique_ptr<ucx_link> link(new ucx_link(worker, to.base_address, ripe));
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(to.keys.worker_address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = &ucx_link::on_peer_failure;
  parameters.err_handler.arg = link.get();
  if (const auto status = ucp_ep_create(worker.handle(), &parameters, &link->endpoint_)) {
    return core::failure<errc>{errc::peer_unreachable,
                               std::string("no endpoint: ") + ucs_status_string(status)};
  }
  if (const auto status = ucp_ep_rkey_unpack(link->endpoint_, to.keys.remote_key.data(), &link->key_)) {
    // The endpoint exists: the caller closes the link as any other.
    link->key_ = nullptr;
    link->peer_failure_ = status;
  }
  return link;
}

operation& ucx_link::prepare(transfer* owner, operation_kind kind) {
  YOLK_INVARIANT(!closing_ && endpoint_ != nullptr && key_ != nullptr);
  if (spare_.empty()) spare_.emplace_back();
  operation& prepared = spare_.front();
  prepared = operation{this, owner, kind, UCS_INPROGRESS, {}, spare_.begin()};
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
  open_.splice(open_.end(), spare_, spare_.begin());
  return UCS_INPROGRESS;
}

ucs_status_t ucx_link::put(transfer* owner, std::span<const std::byte> local, std::uint64_t remote_offset) {
  auto with = parameters(prepare(owner, operation_kind::data));
  with.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  with.memh = worker_.memory();
  return issued(
      ucp_put_nbx(endpoint_, local.data(), local.size(), base_address_ + remote_offset, key_, &with));
}

ucs_status_t ucx_link::get(transfer* owner, std::span<std::byte> local, std::uint64_t remote_offset) {
  auto with = parameters(prepare(owner, operation_kind::data));
  with.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
  with.memh = worker_.memory();
  return issued(
      ucp_get_nbx(endpoint_, local.data(), local.size(), base_address_ + remote_offset, key_, &with));
}

ucs_status_t ucx_link::flush(transfer* owner) {
  const auto with = parameters(prepare(owner, operation_kind::flush));
  return issued(ucp_ep_flush_nbx(endpoint_, &with));
}

ucs_status_t ucx_link::probe(transfer* owner, region_header& seen) {
  operation& prepared = prepare(owner, operation_kind::probe);
  const auto with = parameters(prepared);
  const auto status = issued(ucp_get_nbx(endpoint_, &prepared.seen, sizeof prepared.seen,
                                         base_address_ - sizeof(region_header), key_, &with));
  if (status == UCS_OK) seen = prepared.seen;
  return status;
}

std::list<operation> ucx_link::take_finished() {
  reported_ = false;
  return std::exchange(finished_, {});
}

void ucx_link::close() {
  if (closing_) return;
  closing_ = true;
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

void ucx_link::report() {
  if (reported_) return;
  reported_ = true;
  ripe_.push_back(this);
}

void ucx_link::on_operation(void* request, ucs_status_t status, void* user_data) {
  auto& done = *static_cast<operation*>(user_data);
  done.status = status;
  ucx_link& link = *done.link;
  link.finished_.splice(link.finished_.end(), link.open_, done.self);
  link.report();
  ucp_request_free(request);
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

}  // namespace yolk::transport
