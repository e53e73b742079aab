#pragma once

#include <cstdio>
#include <sstream>
#include <string>

#include "transport/transfer_engine.hpp"

namespace yolk::transport::testing {

inline std::string to_hex(const std::vector<std::byte>& bytes) {
  std::string out;
  char digits[3];
  for (const std::byte byte : bytes) {
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(byte));
    out += digits;
  }
  return out;
}

inline std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
  }
  return out;
}

/// A descriptor as a line of text, the way a message would carry it between processes.
inline std::string to_text(const region_descriptor& region) {
  std::ostringstream out;
  out << region.owner.value << ' ' << region.base_address << ' ' << region.length_bytes << ' '
      << to_hex(region.remote_key) << ' ' << to_hex(region.worker_address);
  return out.str();
}

inline region_descriptor from_text(const std::string& line) {
  std::istringstream in(line);
  region_descriptor region;
  std::string key, address;
  in >> region.owner.value >> region.base_address >> region.length_bytes >> key >> address;
  region.remote_key = from_hex(key);
  region.worker_address = from_hex(address);
  return region;
}

}  // namespace yolk::transport::testing
