#include "cli/api_keys.hpp"

#include <fstream>
#include <sstream>

namespace yolk::cli {

core::result<std::map<std::string, std::string>, errc> read_api_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) return core::failure<errc>{errc::unreadable, path + ": cannot be read"};
  std::map<std::string, std::string> keys;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string key, tenant, more;
    if (!(words >> key)) continue;
    const auto where = path + ":" + std::to_string(number) + ": ";
    // A blank stands in no name that a file gives: nobody else's tenant can be this one.
    if (!(words >> tenant)) tenant = "key " + key;
    if (words >> more)
      return core::failure<errc>{errc::malformed, where + "expected KEY [TENANT], found more words"};
    if (!keys.emplace(key, tenant).second)
      return core::failure<errc>{errc::malformed, where + "this key stands in the file twice"};
  }
  if (keys.empty()) return core::failure<errc>{errc::malformed, path + ": holds no key"};
  return keys;
}

}  // namespace yolk::cli
