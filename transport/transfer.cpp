#include "transport/transfer.hpp"

#include "core/invariant.hpp"

namespace yolk::transport {

void transfer::become(transfer_state next) {
  YOLK_INVARIANT(may_follow(state_, next), static_cast<int>(state_), static_cast<int>(next));
  state_ = next;
}

}  // namespace yolk::transport
