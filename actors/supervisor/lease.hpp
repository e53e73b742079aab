#pragma once

#include <memory>
#include <string>

#include "core/result.hpp"

namespace yolk::actors {

enum class lease_errc { unusable };

/// Which of several nodes with a conductor leads: the one that holds the lease. Others ask from time to time.
/// kubernetes_lease.hpp is one that many machines reach. No call blocks.
class lease {
 public:
  virtual ~lease() = default;
  /// True once it is held. It is kept until the object or the process ends, where nothing happens to its
  /// store.
  [[nodiscard]] virtual bool try_acquire() = 0;
  /// Whether what was acquired is held still. Who lost it must not lead any more: another may already.
  [[nodiscard]] virtual bool holds() const = 0;
  /// For people: what is waited for.
  [[nodiscard]] virtual std::string description() const = 0;
};

/// The lock of a file, for nodes on one machine: the system gives it free when its holder dies, at once. A
/// holder that hangs keeps it.
core::result<std::shared_ptr<lease>, lease_errc> make_file_lease(const std::string& path);

}  // namespace yolk::actors
