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

}  // namespace yolk::cli
