#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace yolk::actors {

enum class route : std::uint8_t {
  not_found,
  method_not_allowed,
  options,  ///< an OPTIONS request for a path that exists
  page,
  health,
  version,
  metrics,
  cluster,
  models,
  model,
  chat,
  completions,
  tokenize,
  detokenize,
};

/// monitoring: /metrics, /health and /version alone, for those who watch a node.
enum class gateway_scope : std::uint8_t { everything, monitoring };

struct routed {
  route where = route::not_found;
  std::string_view allow;     ///< the path's methods, for the Allow header
  std::string_view argument;  ///< a model's name
};

/// `path` is decoded and without its query. HEAD is allowed wherever GET is. Outside the scope nothing is
/// found.
routed find_route(std::string_view method, std::string_view path, gateway_scope scope);

/// Whether an API key is asked for, where keys are configured: everything that reaches the model.
bool needs_key(route where);

}  // namespace yolk::actors
