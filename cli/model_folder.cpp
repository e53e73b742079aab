#include "cli/model_folder.hpp"

namespace yolk::cli {

std::filesystem::path builtin_model_folder() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  for (const auto& folder : {program.parent_path() / "../share/yolk/model/builtin",
                             std::filesystem::path(YOLK_SOURCE_DIR) / "model/builtin"})
    if (std::filesystem::exists(folder / "config.json", ignored)) return folder.lexically_normal();
  return {};
}

}  // namespace yolk::cli
