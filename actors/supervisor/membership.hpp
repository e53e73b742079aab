#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ids.hpp"

namespace yolk::actors {

/// What a node does: a set of these bits.
enum node_role : std::uint32_t {
  role_gateway = 1,
  role_conductor = 2,  ///< with the admission controller; makes the node the head of its cluster
  role_prefill = 4,
  role_decode = 8,
  role_cache = 16,
  all_roles = 31
};

struct node_address {
  std::string host;
  std::uint16_t port = 0;
  friend bool operator==(const node_address&, const node_address&) = default;
};

/// Equal on all nodes of a cluster, or their KV and tokens could not stand for each other.
struct model_identity {
  std::string fingerprint;
  std::string numerics;
  std::uint32_t format_version = 0;
  std::uint32_t block_tokens = 0;
  friend bool operator==(const model_identity&, const model_identity&) = default;
};

struct node_introduction {
  std::uint32_t protocol = 0;
  core::incarnation incarnation;
  std::string name;
  std::uint32_t roles = 0;
  std::uint32_t number = 0;  ///< the one it had; 0 = none yet
  model_identity model;
  node_address address;
};

struct membership_answer {
  std::uint32_t number = 0;  ///< 0 = refused
  std::string reason;        ///< of a refusal
  bool final = false;        ///< the node can never be taken: it should end
};

/// The head's book of who is in the cluster. Numbers start at 1 (the head is 0) and are not given again while
/// their node is in. A value; not thread-safe.
class membership {
 public:
  struct member {
    core::incarnation incarnation;
    std::string name;
    std::uint32_t roles = 0;
    node_address address;
  };

  membership(std::uint32_t protocol, model_identity model, std::uint32_t max_members)
      : protocol_(protocol), model_(std::move(model)), max_members_(max_members) {}

  /// Takes the node in or says why not. One that comes again (its link broke) replaces itself; one that had a
  /// number keeps it where it is free.
  membership_answer join(const node_introduction& who);
  void leave(std::uint32_t number) { members_.erase(number); }
  [[nodiscard]] const std::map<std::uint32_t, member>& members() const { return members_; }

 private:
  [[nodiscard]] std::string objection(const node_introduction& who) const;

  std::uint32_t protocol_;
  model_identity model_;
  std::uint32_t max_members_;
  std::map<std::uint32_t, member> members_;
};

}  // namespace yolk::actors
