#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/supervisor/cluster_identity.hpp"
#include "actors/supervisor/membership.hpp"

namespace yolk::cli {

/// "host:7700", "[::1]:7700".
std::optional<actors::node_address> parse_address(const std::string& text);
/// Those of --join, which names it in its errors.
actors::node_result<std::vector<actors::node_address>> parse_heads(const std::vector<std::string>& texts);
/// From the file that --secret-file names.
actors::node_result<std::shared_ptr<const actors::cluster_identity>> read_identity(const std::string& file);

}  // namespace yolk::cli
