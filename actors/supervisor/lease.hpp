#pragma once

#include <memory>
#include <string>

#include "core/result.hpp"

namespace yolk::actors {

enum class lease_errc { unusable };

/// Which of several nodes with a conductor leads: the one that holds the lease. Others ask from time to time.
/// A store that many machines reach (the Kubernetes Lease API, etcd) is another implementation.
class lease {
 public:
  virtual ~lease() = default;
  /// True once it is held, and from then on: it is kept until the object or the process ends.
  [[nodiscard]] virtual bool try_acquire() = 0;
  /// For people: what is waited for.
  [[nodiscard]] virtual std::string description() const = 0;
};

/// The lock of a file, for nodes on one machine: the system gives it free when its holder dies, at once. A
/// holder that hangs keeps it.
core::result<std::shared_ptr<lease>, lease_errc> make_file_lease(const std::string& path);

}  // namespace yolk::actors
