#include "cli/option_file.hpp"

#include <cctype>
#include <charconv>
#include <memory>
#include <string_view>

namespace yolk::cli {

namespace {

constexpr std::uint64_t max_bytes = std::uint64_t{64} << 40;

constexpr const char* units_text =
    "KiB, MiB, GiB or TiB behind it (KB, MB, GB, TB mean the same), or nothing for bytes";

/// Turns "512MiB" into its number of bytes; empty, or what is wrong.
std::string to_bytes(std::string& given) {
  const std::string_view text = given;
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  auto unit = text.substr(static_cast<std::size_t>(parsed.ptr - text.data()));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  std::string lower;
  for (const char letter : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  constexpr std::string_view scales = "kmgt";
  int shift = 0;
  if (!lower.empty() && lower != "b") {
    const auto scale = scales.find(lower.front());
    const auto rest = std::string_view(lower).substr(1);
    if (scale == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "i" || rest == "ib"))
      return "'" + given + "' is no size: a number with " + units_text;
    shift = 10 * (static_cast<int>(scale) + 1);
  }
  if (parsed.ec == std::errc::invalid_argument)
    return "'" + given + "' is no size: a number with " + units_text;
  if (parsed.ec != std::errc() || number == 0 || number > max_bytes >> shift)
    return "'" + given + "': from 1 byte to 64TiB";
  given = std::to_string(number << shift);
  return {};
}

bool is_section_mark(const CLI::ConfigItem& item) {
  return item.name == "++" || item.name == "--";
}

}  // namespace

std::vector<CLI::ConfigItem> option_file::from_config(std::istream& input) const {
  std::vector<CLI::ConfigItem> options;
  for (auto& item : CLI::ConfigTOML::from_config(input)) {
    if (!item.parents.empty() && item.parents != std::vector<std::string>{section_})
      throw CLI::ConfigError("--config: no section [" + item.parents.front() + "]; use [" + section_ +
                             "], or none");
    if (is_section_mark(item)) continue;
    if (command_->get_option_no_throw("--" + item.name) == nullptr)
      throw CLI::ConfigError("--config: '" + item.name + "' is no option of yolk " + section_);
    item.parents.clear();
    options.push_back(std::move(item));
  }
  return options;
}

void add_option_file(CLI::App& command, const std::string& section) {
  command.set_config("--config", "", "Read options from a file (TOML or INI; keys as the long options)");
  command.config_formatter(std::make_shared<option_file>(&command, section));
}

CLI::Option* add_byte_size(CLI::App& command, const std::string& name, std::uint64_t& target,
                           const std::string& text) {
  return command.add_option(name, target, text)
      ->transform(CLI::Validator(to_bytes, "SIZE"))
      ->capture_default_str();
}

CLI::Validator not_empty(const std::string& what) {
  return {[what](std::string& given) { return given.empty() ? "may not be empty: " + what : std::string(); },
          ""};
}

}  // namespace yolk::cli
