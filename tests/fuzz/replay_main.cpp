// Runs a fuzz target over the files of corpus folders, once each: what the fuzzer found stays found with any
// compiler.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void run(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  // A copy of exactly the input's size, so that the address sanitizer sees one byte too many.
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  // The name goes out before the run: after a crash it is the last line.
  std::printf("%s (%zu bytes)\n", file.c_str(), bytes.size());
  std::fflush(stdout);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      std::fprintf(stderr, "%s is no folder\n", argv[i]);
      return 1;
    }
    for (const auto& file : files_of(argv[i])) {
      run(file);
      ++count;
    }
  }
  if (count == 0) {
    std::fprintf(stderr, "no corpus file was given\n");
    return 1;
  }
  std::printf("%zu files\n", count);
  return 0;
}
