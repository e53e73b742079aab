#include "cli/option_file.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <set>
#include <sstream>
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

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

bool is_section_mark(const CLI::ConfigItem& item) {
  return item.name == "++" || item.name == "--";
}

/// Throws where CLI11's reader would go on with something else than what the line says: a string without an
/// end, or a key that stands there again (whose values it would join).
void check_lines(const std::string& text) {
  std::set<std::string> keys;
  std::istringstream lines(text);
  std::string line, section;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto where = "--config, line " + std::to_string(number) + ": ";
    line = CLI::detail::trim_copy(line.substr(0, line.find('#')));
    if (line.starts_with('[') && line.ends_with(']')) section = line;
    const auto equals = line.find('=');
    if (line.starts_with(';') || line.starts_with('[') || equals == std::string::npos) continue;
    std::string key = CLI::detail::trim_copy(line.substr(0, equals));
    const std::string value = CLI::detail::trim_copy(line.substr(equals + 1));
    CLI::detail::remove_quotes(key);
    if (!keys.insert(section + key).second)
      throw CLI::ConfigError(where + "'" + key + "' stands in the file twice");
    const bool is_string = value.starts_with('"') || value.starts_with('\'');
    if (is_string && (value.size() < 2 || value.back() != value.front()))
      throw CLI::ConfigError(where + "the text of '" + key +
                             "' has no end (# begins a comment, within a text too)");
  }
}

}  // namespace

std::vector<CLI::ConfigItem> option_file::from_config(std::istream& input) const {
  std::ostringstream text;
  text << input.rdbuf();
  check_lines(text.str());
  std::istringstream again(text.str());
  std::vector<CLI::ConfigItem> options;
  std::set<std::string> names;
  for (auto& item : CLI::ConfigTOML::from_config(again)) {
    if (!item.parents.empty() && item.parents != std::vector<std::string>{section_})
      throw CLI::ConfigError("--config: no section [" + item.parents.front() + "]; use [" + section_ +
                             "], or none");
    if (is_section_mark(item)) continue;
    if (command_->get_option_no_throw("--" + item.name) == nullptr)
      throw CLI::ConfigError("--config: '" + item.name + "' is no option of yolk " + section_);
    if (!names.insert(item.name).second)
      throw CLI::ConfigError("--config: '" + item.name + "' stands in the file twice");
    item.parents.clear();
    options.push_back(std::move(item));
  }
  return options;
}

void add_option_file(CLI::App& command, const std::string& section) {
  command.set_config("--config", "", "Read options from a file (TOML or INI; keys as the long options)");
  command.config_formatter(std::make_shared<option_file>(&command, section));
}

CLI::Validator one_line(const std::string& what) {
  return {[what](std::string& given) {
            if (given.empty()) return what + " is not empty";
            return std::any_of(given.begin(), given.end(), is_control) ? what + " has no control characters"
                                                                       : std::string();
          },
          ""};
}

CLI::Validator one_word(const std::string& what) {
  return {[what](std::string& given) {
            const auto visible = [](char c) { return c > 0x20 && c < 0x7F; };
            if (given.empty()) return what + " is not empty";
            return std::all_of(given.begin(), given.end(), visible)
                       ? std::string()
                       : what + " has no blanks, no control characters and ASCII only";
          },
          ""};
}

CLI::Option* add_byte_size(CLI::App& command, const std::string& name, std::uint64_t& target,
                           const std::string& text) {
  return command.add_option(name, target, text)
      ->transform(CLI::Validator(to_bytes, "SIZE"))
      ->capture_default_str();
}

}  // namespace yolk::cli
