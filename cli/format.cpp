#include "cli/format.hpp"

#include <array>
#include <cstdio>

namespace yolk::cli {

namespace {

template <std::size_t Count>
std::string scaled(std::uint64_t number, double step, const std::array<const char*, Count>& units) {
  auto value = static_cast<double>(number);
  std::size_t unit = 0;
  while (value >= step && unit + 1 < Count) {
    value /= step;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, value < 10 && unit > 0 ? "%.1f%s" : "%.0f%s", value, units[unit]);
  return text;
}

}  // namespace

std::string short_count(std::uint64_t count) {
  return scaled(count, 1000, std::array<const char*, 4>{"", " k", " M", " G"});
}

std::string short_bytes(std::uint64_t bytes) {
  return scaled(bytes, 1024, std::array<const char*, 5>{" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string visible(std::string_view utf8) {
  constexpr unsigned char c1_lead = 0xC2;  // U+0080 to U+009F: C2 80 to C2 9F
  const auto byte_at = [utf8](std::size_t at) {
    return at < utf8.size() ? static_cast<unsigned char>(utf8[at]) : 0;
  };
  std::string out;
  for (std::size_t at = 0; at < utf8.size(); ++at) {
    const auto byte = byte_at(at);
    if (byte == c1_lead && byte_at(at + 1) >= 0x80 && byte_at(at + 1) < 0xA0) {
      out += {'M', '-', '^', static_cast<char>(byte_at(++at) - 0x40)};
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      out += {'^', static_cast<char>(byte ^ 0x40)};
    } else {
      out += utf8[at];
    }
  }
  return out;
}

}  // namespace yolk::cli
