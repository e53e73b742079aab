#include "cli/cluster_access.hpp"

#include <charconv>
#include <fstream>
#include <iterator>

namespace yolk::cli {

namespace {

core::failure<actors::node_errc> failed(std::string text) {
  return core::failure<actors::node_errc>{actors::node_errc::no_identity, std::move(text)};
}

}  // namespace

std::optional<actors::node_address> parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  auto host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (host.empty() || parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return actors::node_address{host, port};
}

actors::node_result<std::vector<actors::node_address>> parse_heads(const std::vector<std::string>& texts) {
  std::vector<actors::node_address> heads;
  for (const auto& text : texts) {
    const auto address = parse_address(text);
    if (!address || address->port == 0) return failed("--join: " + text + " is no HOST:PORT");
    heads.push_back(*address);
  }
  return heads;
}

actors::node_result<std::shared_ptr<const actors::cluster_identity>> read_identity(const std::string& file) {
  std::ifstream input(file, std::ios::binary);
  if (!input) return failed("--secret-file: cannot read " + file);
  std::string secret((std::istreambuf_iterator<char>(input)), std::istreambuf_iterator<char>());
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  auto identity = actors::cluster_identity::derive(secret);
  if (!identity) return failed("--secret-file " + file + ": " + identity.error().message);
  return std::move(identity).value();
}

}  // namespace yolk::cli
