#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.hpp"
#include "model/errc.hpp"

namespace yolk::model {

/// One tensor as the header of a safetensors file declares it; the declaration has been checked against the
/// file.
struct tensor_entry {
  std::string name;
  std::string dtype;               ///< as in the file: "BF16"
  std::optional<gpu::dtype> type;  ///< empty for types that no weight may have
  std::vector<std::uint64_t> shape;
  std::uint64_t element_count = 0;
  std::uint64_t offset_bytes = 0;  ///< from the start of the file
  std::uint64_t size_bytes = 0;
};

inline constexpr std::uint64_t safetensors_header_limit_bytes = 100u << 20;

/// Checks the header of a safetensors file that lies in memory as a whole: length, JSON, names, types,
/// shapes, offsets within the file, sizes that match shapes, no overlap. Entries in order of their offsets.
/// `name` is the file's.
result<std::vector<tensor_entry>> parse_safetensors(std::span<const std::byte> file, std::string_view name);

/// A file mapped for reading. Pages are the kernel's to keep; release() lets go of a part that will not be
/// read again.
class mapped_file {
 public:
  static result<std::shared_ptr<const mapped_file>> open(const std::filesystem::path& path);
  ~mapped_file();
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const { return {begin_, size_}; }
  /// The part about to be read: asks the kernel to fetch it.
  void prefetch(std::span<const std::byte> part) const;
  void release(std::span<const std::byte> part) const;

 private:
  mapped_file(const std::byte* begin, std::size_t size) : begin_(begin), size_(size) {}
  void advise(std::span<const std::byte> part, int advice) const;

  const std::byte* begin_;
  std::size_t size_;
};

/// A tensor of a tensor_set: its declaration, where it lies and in which file.
struct stored_tensor {
  tensor_entry entry;
  std::shared_ptr<const mapped_file> file;
  std::shared_ptr<const std::string> file_name;
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return file->bytes().subspan(entry.offset_bytes, entry.size_bytes);
  }
};

/// All tensors of a model's folder: model.safetensors, or the shards that model.safetensors.index.json names.
/// Files stay mapped as long as the set lives; nothing is copied. Used while a model is loaded, by one
/// thread.
class tensor_set {
 public:
  static result<tensor_set> open(const std::filesystem::path& folder);
  [[nodiscard]] const std::map<std::string, stored_tensor, std::less<>>& all() const { return tensors_; }
  [[nodiscard]] bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  /// A weight of exactly this shape and of a type that can be one; else an error with file and tensor.
  [[nodiscard]] result<const stored_tensor*> find(std::string_view name,
                                                  std::span<const std::uint64_t> shape) const;
  /// What to call the weights in an error about a tensor that is in no file.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::map<std::string, stored_tensor, std::less<>> tensors_;
  std::string name_;
};

}  // namespace yolk::model
