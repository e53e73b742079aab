#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace yolk::cli {

/// Reads a file of options (TOML or INI): keys are the long options, at the top or in a section with the
/// command's name. A key that is no option, or that stands there twice, is an error that names it; so is a
/// text without its closing quote.
class option_file : public CLI::ConfigTOML {
 public:
  /// `section`: the command's name, "serve".
  option_file(const CLI::App* command, std::string section)
      : command_(command), section_(std::move(section)) {}
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

 private:
  const CLI::App* command_;
  std::string section_;
};

/// Declares --config for a command.
void add_option_file(CLI::App& command, const std::string& section);

/// An option that is a number of bytes: "4096", "512MiB", "3GiB"; at least 1, at most 64 TiB.
CLI::Option* add_byte_size(CLI::App& command, const std::string& name, std::uint64_t& target,
                           const std::string& text);

/// Checks of a text that goes into a header or a log: not empty, no control characters. `what`: "a name".
CLI::Validator one_line(const std::string& what);
/// The same, and in visible ASCII only, without a blank.
CLI::Validator one_word(const std::string& what);

}  // namespace yolk::cli
