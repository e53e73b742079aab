#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "transport/descriptor_seal.hpp"
#include "transport/transfer_engine.hpp"
#include "transport/ucx_messages.hpp"
#include "transport/ucx_worker.hpp"

namespace yolk::transport {

struct peer;
struct transfer;
class ucx_link;

/// One request that did not end at once. Lives in its link's list until UCX has called back and the peer has
/// replied, as far as it waits for either.
struct operation {
  ucx_link* link = nullptr;
  transfer* owner = nullptr;  ///< none: the greeting, or a transfer that was completed without waiting for it
  ucs_status_t status = UCS_OK;
  bool is_sending = false;  ///< UCX has the request
  bool awaits_reply = false;
  bool reads_header = false;  ///< into `seen`
  region_header seen;
  message_header message;
  std::byte* destination = nullptr;  ///< of a get by message
  std::list<operation>::iterator self;
};

/// One endpoint with the remote key of one region. Where the region's memory is mapped here, put and get are
/// a memcpy; elsewhere they are UCX's own (hardware that can) or messages, as engine_options::access says.
/// UCX's callbacks only move operations from the open to the finished list and report the link as ripe; the
/// engine's thread acts on that later, at one place, outside of UCX. Owned by the engine, until closed():
/// UCX's callbacks point here.
class ucx_link {
 public:
  struct target {
    region_keys keys;
    std::uint64_t owner = 0;
    std::uint64_t base_address = 0;
    std::uint64_t length_bytes = 0;
  };
  struct surroundings {
    ucx_worker& worker;
    ucx_messages& messages;
    std::vector<ucx_link*>& ripe;  ///< gets a link whenever the engine should look at it
    access_path access;
  };
  static result<std::unique_ptr<ucx_link>> open(const surroundings& in, const target& to);
  ~ucx_link() = default;
  ucx_link(const ucx_link&) = delete;
  ucx_link& operator=(const ucx_link&) = delete;

  /// Each of these returns UCS_OK (done), UCS_INPROGRESS (an operation is open) or why it failed;
  /// UCS_ERR_REJECTED: the region's engine has ended.
  ucs_status_t put(transfer* owner, std::span<const std::byte> local, std::uint64_t remote_offset);
  ucs_status_t get(transfer* owner, std::span<std::byte> local, std::uint64_t remote_offset);
  /// What was put so far is visible at the target.
  ucs_status_t flush(transfer* owner);
  /// The region's engine still ran after what was issued so far.
  ucs_status_t confirm(transfer* owner);
  /// The first exchange: whether the peer is there at all.
  ucs_status_t greet();
  /// Sees in mapped memory that the region's engine has ended. False says nothing.
  [[nodiscard]] bool has_seen_the_end() const;
  [[nodiscard]] std::uint64_t max_piece_bytes() const;

  /// Whose link it is; none once it is closing.
  [[nodiscard]] peer* owner() const { return owner_; }
  void set_owner(peer* owner) { owner_ = owner; }

  [[nodiscard]] std::size_t open_operations() const { return open_.size(); }
  /// What has finished since the last call; the link is no longer ripe.
  std::list<operation> take_finished();
  /// UCX's word that the peer is gone, or UCS_OK.
  [[nodiscard]] ucs_status_t peer_failure() const { return peer_failure_; }
  /// For ucx_messages: the reply came.
  void replied(operation& asked, ucs_status_t status);

  /// Closes the endpoint by force: what is open ends soon.
  void close();
  [[nodiscard]] bool closed() const { return closing_ && close_request_ == nullptr && open_.empty(); }
  /// Open operations no longer report to their owners.
  void disown_operations();
  /// Gives the remote key back; after closed(), or right before the worker is destroyed.
  void release();

 private:
  enum class mode { mapped, native, messages };

  ucx_link(const surroundings& in, const target& to) : in_(in), to_(to) {}
  void choose_mode();
  operation& prepare(transfer* owner);
  [[nodiscard]] ucp_request_param_t parameters(operation& operation) const;
  ucs_status_t issued(ucs_status_ptr_t request);
  ucs_status_t ask(transfer* owner, message_header with, std::span<const std::byte> payload,
                   std::byte* destination);
  ucs_status_t read_header(transfer* owner);
  [[nodiscard]] bool is_mapped_alive() const;
  [[nodiscard]] bool is_alive(const region_header& seen) const;
  void end_if_complete(operation& open);
  void report();
  static void on_operation(void* request, ucs_status_t status, void* user_data);
  static void on_closed(void* request, ucs_status_t status, void* user_data);
  static void on_peer_failure(void* user_data, ucp_ep_h endpoint, ucs_status_t status);

  surroundings in_;
  target to_;  // its keys point into the peer's descriptor and are used only while it is opened
  peer* owner_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  ucp_rkey_h key_ = nullptr;
  mode mode_ = mode::messages;
  std::byte* mapped_ = nullptr;  // the region in this process
  std::list<operation> spare_;   // at most one: most operations end at once and leave it here
  std::list<operation> open_;
  std::list<operation> finished_;
  ucs_status_t peer_failure_ = UCS_OK;
  void* close_request_ = nullptr;
  bool closing_ = false;
  bool reported_ = false;
};

}  // namespace yolk::transport
