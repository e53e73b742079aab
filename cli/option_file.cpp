#include "cli/option_file.hpp"

#include <memory>

namespace yolk::cli {

namespace {

constexpr std::uint64_t max_bytes = std::uint64_t{64} << 40;

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
  const auto sign = [](std::string& given) {
    return given.find('-') == std::string::npos ? std::string()
                                                : "a number of bytes is not negative: " + given;
  };
  const auto size = [](std::string& given) {
    std::uint64_t bytes = 0;
    if (!CLI::detail::lexical_cast(given, bytes) || bytes == 0 || bytes > max_bytes)
      return "from 1 to 64TiB, not " + given + " bytes";
    return std::string();
  };
  return command.add_option(name, target, text)
      ->check(CLI::Validator(size, ""))
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(sign, ""))
      ->capture_default_str();
}

}  // namespace yolk::cli
