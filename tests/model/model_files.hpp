#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

/// Files as models have them, written by the tests themselves.
namespace yolk::model::testing {

/// A folder that goes when the test does.
class temporary_folder {
 public:
  temporary_folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "yolk_model_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct raw_tensor {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string bytes;
};

/// `header` as given, with the length before and `data` behind it.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof length);
  return out + header + data;
}

/// `padding` spaces behind the header shift the data: an odd number makes every tensor misaligned.
inline std::string safetensors_bytes(const std::map<std::string, raw_tensor>& tensors,
                                     std::size_t padding = 0) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const std::uint64_t size : tensor.shape) {
      if (!shape.empty()) shape += ",";
      shape += std::to_string(size);
    }
    header += ",\"" + name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8 + padding, ' ');
  return safetensors_bytes(header, data);
}

}  // namespace yolk::model::testing
