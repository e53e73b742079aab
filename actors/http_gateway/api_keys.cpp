#include "actors/http_gateway/api_keys.hpp"

#include <cctype>

namespace yolk::actors {

namespace {

/// No branch and no early end that depends on where the two differ.
bool equal_in_constant_time(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    difference = static_cast<unsigned char>(
        difference | (static_cast<unsigned char>(left[i]) ^ static_cast<unsigned char>(right[i])));
  return difference == 0;
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() < scheme.size()) return {};
  for (std::size_t i = 0; i < scheme.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != scheme[i]) return {};
  authorization.remove_prefix(scheme.size());
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  while (authorization.ends_with(' ')) authorization.remove_suffix(1);
  return authorization;
}

}  // namespace

std::optional<std::string> tenant_of(const std::map<std::string, std::string>& keys,
                                     std::string_view authorization) {
  const std::string_view given = bearer_token(authorization);
  const std::string* tenant = nullptr;
  // All keys are compared, whichever matches.
  for (const auto& [key, owner] : keys)
    if (equal_in_constant_time(key, given)) tenant = &owner;
  if (tenant == nullptr || given.empty()) return std::nullopt;
  return *tenant;
}

}  // namespace yolk::actors
