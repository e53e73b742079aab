#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "transport/descriptor_seal.hpp"
#include "transport/transfer_engine.hpp"
#include "transport/ucx_worker.hpp"

namespace yolk::transport {

struct peer;
struct transfer;
class ucx_link;

enum class operation_kind { data, flush, probe };

/// One request that UCX did not finish at once. Lives in its link's list until UCX has called back.
struct operation {
  ucx_link* link = nullptr;
  transfer* owner =
      nullptr;  ///< none: the link's first probe, or a transfer that was completed without waiting for it
  operation_kind kind = operation_kind::data;
  ucs_status_t status = UCS_INPROGRESS;
  region_header seen;  ///< where a probe reads to
  std::list<operation>::iterator self;
};

/// One endpoint with the remote key of one region. UCX's callbacks only move operations from the open to the
/// finished list and report the link as ripe; the engine's thread acts on that later, at one place, outside
/// of UCX. Owned by the engine, until closed(): UCX's callbacks point here.
class ucx_link {
 public:
  struct target {
    region_keys keys;
    std::uint64_t base_address = 0;
  };
  /// `ripe` gets the link whenever the engine should look at it.
  static result<std::unique_ptr<ucx_link>> open(ucx_worker& worker, const target& to,
                                                std::vector<ucx_link*>& ripe);
  ~ucx_link() = default;
  ucx_link(const ucx_link&) = delete;
  ucx_link& operator=(const ucx_link&) = delete;

  /// Each returns UCS_OK (done), UCS_INPROGRESS (an operation is open) or why it failed.
  ucs_status_t put(transfer* owner, std::span<const std::byte> local, std::uint64_t remote_offset);
  ucs_status_t get(transfer* owner, std::span<std::byte> local, std::uint64_t remote_offset);
  ucs_status_t flush(transfer* owner);
  /// Reads the region's header; UCS_OK: into `seen`.
  ucs_status_t probe(transfer* owner, region_header& seen);

  /// Whose link it is; none once it is closing.
  [[nodiscard]] peer* owner() const { return owner_; }
  void set_owner(peer* owner) { owner_ = owner; }

  [[nodiscard]] std::size_t open_operations() const { return open_.size(); }
  /// What has finished since the last call; the link is no longer ripe.
  std::list<operation> take_finished();
  /// UCX's word that the peer is gone, or UCS_OK.
  [[nodiscard]] ucs_status_t peer_failure() const { return peer_failure_; }

  /// Closes the endpoint by force: what is open ends soon.
  void close();
  [[nodiscard]] bool closed() const { return closing_ && close_request_ == nullptr && open_.empty(); }
  /// Open operations no longer report to their owners.
  void disown_operations();
  /// Gives the remote key back; after closed(), or right before the worker is destroyed.
  void release();

 private:
  ucx_link(ucx_worker& worker, std::uint64_t base_address, std::vector<ucx_link*>& ripe)
      : worker_(worker), base_address_(base_address), ripe_(ripe) {}
  operation& prepare(transfer* owner, operation_kind kind);
  ucs_status_t issued(ucs_status_ptr_t request);
  ucp_request_param_t parameters(operation& operation) const;
  void report();
  static void on_operation(void* request, ucs_status_t status, void* user_data);
  static void on_closed(void* request, ucs_status_t status, void* user_data);
  static void on_peer_failure(void* user_data, ucp_ep_h endpoint, ucs_status_t status);

  ucx_worker& worker_;
  std::uint64_t base_address_;
  std::vector<ucx_link*>& ripe_;
  peer* owner_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  std::list<operation> spare_;  // at most one: most operations finish at once and leave it here
  std::list<operation> open_;
  std::list<operation> finished_;
  ucs_status_t peer_failure_ = UCS_OK;
  void* close_request_ = nullptr;
  bool closing_ = false;
  bool reported_ = false;
};

}  // namespace yolk::transport
