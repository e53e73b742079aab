#pragma once

#include <filesystem>

namespace yolk::cli {

/// Where the builtin model lies: in the source tree that this program was built from, or under share/yolk
/// beside it. Empty when it is in neither.
std::filesystem::path builtin_model_folder();

}  // namespace yolk::cli
