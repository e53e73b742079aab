#include "actors/http_gateway/routes.hpp"

#include <array>

namespace yolk::actors {

namespace {

constexpr std::string_view get_methods = "GET, HEAD, OPTIONS";
constexpr std::string_view post_methods = "POST, OPTIONS";
constexpr std::string_view model_prefix = "/v1/models/";

struct entry {
  std::string_view path;
  route where;
  std::string_view allow;
  gateway_scope scope = gateway_scope::everything;  ///< the narrowest that has it
};
constexpr std::array entries = {
    entry{"/", route::page, get_methods},
    entry{"/health", route::health, get_methods, gateway_scope::monitoring},
    entry{"/version", route::version, get_methods, gateway_scope::monitoring},
    entry{"/metrics", route::metrics, get_methods, gateway_scope::monitoring},
    entry{"/cluster", route::cluster, get_methods},
    entry{"/v1/models", route::models, get_methods},
    entry{"/v1/chat/completions", route::chat, post_methods},
    entry{"/v1/completions", route::completions, post_methods},
    entry{"/tokenize", route::tokenize, post_methods},
    entry{"/detokenize", route::detokenize, post_methods},
};

routed find_path(std::string_view path, gateway_scope scope) {
  const bool everything = scope == gateway_scope::everything;
  for (const entry& candidate : entries)
    if (candidate.path == path && (everything || candidate.scope == scope))
      return {candidate.where, candidate.allow, {}};
  if (everything && path.starts_with(model_prefix) && path.size() > model_prefix.size())
    return {route::model, get_methods, path.substr(model_prefix.size())};
  return {};
}

}  // namespace

routed find_route(std::string_view method, std::string_view path, gateway_scope scope) {
  routed found = find_path(path, scope);
  if (found.where == route::not_found) return found;
  if (method == "OPTIONS")
    found.where = route::options;
  else if (found.allow.find(method) == std::string_view::npos ||
           method.find_first_of(", ") != std::string_view::npos)
    found.where = route::method_not_allowed;
  return found;
}

bool needs_key(route where) {
  switch (where) {
    case route::models:
    case route::model:
    case route::chat:
    case route::completions:
    case route::tokenize:
    case route::detokenize:
      return true;
    default:
      return false;
  }
}

}  // namespace yolk::actors
