#pragma once

#include <chrono>
#include <string>

#include "actors/supervisor/lease.hpp"

namespace yolk::actors {

/// Where an object of Kubernetes' coordination.k8s.io/v1 Lease API is, and who asks for it.
struct kubernetes_lease_options {
  /// Of the API server: "http://127.0.0.1:8001" as kubectl proxy has it. Empty: that of the cluster which
  /// this process runs in, with its service account's token, authority and (without another) namespace.
  std::string api;
  std::string name_space;
  std::string name;
  std::string holder;  ///< unique among those that ask
  /// How long after the last word of a holder another may take it. The holder renews it thrice within that
  /// time, and regards it as lost when that failed for two thirds of it.
  std::chrono::milliseconds duration{6000};
};

/// "NAME" or "URL/NAMESPACE/NAME", what --lease has after "k8s:".
core::result<kubernetes_lease_options, lease_errc> parse_kubernetes_lease(const std::string& text);

/// A thread asks the API and renews; no clock of another machine counts: a lease is free when its object has
/// not changed for its duration, as this process saw it. Given back at the end, so that others need not wait.
core::result<std::shared_ptr<lease>, lease_errc> make_kubernetes_lease(kubernetes_lease_options options);

}  // namespace yolk::actors
