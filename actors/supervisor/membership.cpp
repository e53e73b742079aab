#include "actors/supervisor/membership.hpp"

namespace yolk::actors {

namespace {

std::string differs(const char* what, const std::string& theirs, const std::string& ours) {
  return std::string("its ") + what + " is " + theirs + ", the cluster's is " + ours;
}

}  // namespace

std::string membership::objection(const node_introduction& who) const {
  if (who.protocol != protocol_)
    return differs("protocol version", std::to_string(who.protocol), std::to_string(protocol_));
  if (who.model.fingerprint != model_.fingerprint)
    return differs("model", who.model.fingerprint, model_.fingerprint);
  if (who.model.numerics != model_.numerics) return differs("numerics", who.model.numerics, model_.numerics);
  if (who.model.format_version != model_.format_version)
    return differs("block format", std::to_string(who.model.format_version),
                   std::to_string(model_.format_version));
  if (who.model.block_tokens != model_.block_tokens)
    return differs("--block-tokens", std::to_string(who.model.block_tokens),
                   std::to_string(model_.block_tokens));
  if ((who.roles & role_conductor) != 0) return "it is a conductor itself";
  return {};
}

membership_answer membership::join(const node_introduction& who) {
  if (auto reason = objection(who); !reason.empty())
    return {.number = 0, .reason = std::move(reason), .final = true};
  for (auto found = members_.begin(); found != members_.end(); ++found) {
    if (found->second.address != who.address) continue;
    // The same door: the node itself, whose link broke, or its successor. An older one speaks too late.
    if (found->second.incarnation > who.incarnation)
      return {.number = 0, .reason = "a newer process serves its address", .final = true};
    members_.erase(found);
    break;
  }
  if (members_.size() >= max_members_)
    return {.number = 0,
            .reason = "the cluster has its limit of " + std::to_string(max_members_) + " nodes",
            .final = false};
  auto number = who.number;
  if (number == 0 || members_.contains(number))
    for (number = 1; members_.contains(number);) ++number;
  members_[number] = {who.incarnation, who.name, who.roles, who.address};
  return {.number = number, .reason = {}, .final = false};
}

}  // namespace yolk::actors
