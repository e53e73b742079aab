#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "actors/supervisor/worker_factory.hpp"

namespace yolk::actors {

inline constexpr std::size_t min_secret_bytes = 16;

/// What a node proves to others and asks of them: that it knows the cluster's secret. The secret is hashed
/// (scrypt) into an Ed25519 key, and that key signs a certificate, byte by byte the same on every node: each
/// presents it and trusts no other, so the TLS handshake is the mutual challenge. The secret itself never
/// travels.
///
/// CAF takes file names: the files lie in memory and have names as long as the object lives. Nothing of them
/// touches a disk, or outlives the process however it ends.
class cluster_identity {
 public:
  static node_result<std::shared_ptr<const cluster_identity>> derive(std::string_view secret);
  ~cluster_identity();
  cluster_identity(const cluster_identity&) = delete;
  cluster_identity& operator=(const cluster_identity&) = delete;

  [[nodiscard]] std::string certificate_file() const;
  [[nodiscard]] std::string key_file() const;

 private:
  cluster_identity() = default;

  int certificate_ = -1;  ///< descriptors of files in memory
  int key_ = -1;
};

}  // namespace yolk::actors
