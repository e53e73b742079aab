#include "model/safetensors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "model/json_fields.hpp"

namespace yolk::model {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

using nlohmann::json;

constexpr std::size_t header_depth_limit = 4;  // { tensor: { shape: [ … ] } }
constexpr std::size_t dimension_limit = 8;
constexpr std::size_t index_limit_bytes = 64u << 20;
constexpr std::size_t shard_limit = 4096;

struct element_type {
  std::string_view name;
  std::uint64_t size_bytes;
  std::optional<gpu::dtype> type;
};

constexpr element_type element_types[] = {
    {"F32", 4, gpu::dtype::f32},
    {"F16", 2, gpu::dtype::f16},
    {"BF16", 2, gpu::dtype::bf16},
    {"F64", 8, {}},
    {"I64", 8, {}},
    {"U64", 8, {}},
    {"I32", 4, {}},
    {"U32", 4, {}},
    {"I16", 2, {}},
    {"U16", 2, {}},
    {"I8", 1, {}},
    {"U8", 1, {}},
    {"BOOL", 1, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
};

core::failure<errc> malformed(std::string_view file, const std::string& what) {
  return {errc::malformed, std::string(file) + ": " + what};
}

core::failure<errc> malformed(std::string_view file, std::string_view tensor, const std::string& what) {
  return malformed(file, "tensor " + shown(json(tensor)) + ": " + what);
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// a · b, or nothing if 64 bits do not hold it.
std::optional<std::uint64_t> product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return {};
  return out;
}

struct data_area {
  std::uint64_t begin_bytes;  ///< within the file
  std::uint64_t size_bytes;
};

result<core::void_t> read_offsets(const json& declared, const data_area& area, std::string_view file,
                                  tensor_entry& entry) {
  const auto offsets = declared.find("data_offsets");
  if (offsets == declared.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned())
    return malformed(file, entry.name, "data_offsets is not a pair of unsigned integers");
  const auto begin = (*offsets)[0].get<std::uint64_t>();
  const auto end = (*offsets)[1].get<std::uint64_t>();
  if (begin > end)
    return malformed(file, entry.name, "data_offsets " + shown(*offsets) + " end before they begin");
  if (end > area.size_bytes)
    return malformed(file, entry.name,
                     "data_offsets " + shown(*offsets) + " lie beyond the end of the file (" +
                         std::to_string(area.size_bytes) + " bytes of data)");
  if (end - begin != entry.size_bytes)
    return malformed(file, entry.name,
                     "data_offsets " + shown(*offsets) + " hold " + std::to_string(end - begin) +
                         " bytes, but " + entry.dtype + " " + shape_text(entry.shape) + " takes " +
                         std::to_string(entry.size_bytes));
  entry.offset_bytes = area.begin_bytes + begin;
  return core::void_t{};
}

result<tensor_entry> read_entry(const std::string& name, const json& declared, const data_area& area,
                                std::string_view file) {
  tensor_entry entry;
  entry.name = name;
  if (!declared.is_object()) return malformed(file, name, "its declaration is not an object");
  const auto dtype = declared.find("dtype");
  if (dtype == declared.end() || !dtype->is_string()) return malformed(file, name, "dtype is not a string");
  entry.dtype = dtype->get<std::string>();
  const auto* type = std::find_if(std::begin(element_types), std::end(element_types),
                                  [&](const element_type& each) { return each.name == entry.dtype; });
  if (type == std::end(element_types)) return malformed(file, name, "unknown dtype " + shown(*dtype));
  entry.type = type->type;

  const auto shape = declared.find("shape");
  if (shape == declared.end() || !shape->is_array() || shape->size() > dimension_limit)
    return malformed(file, name,
                     "shape is not a list of at most " + std::to_string(dimension_limit) + " sizes");
  std::uint64_t count = 1;
  for (const json& size : *shape) {
    if (!size.is_number_unsigned()) return malformed(file, name, "shape has " + shown(size) + ", not a size");
    entry.shape.push_back(size.get<std::uint64_t>());
    const auto next = product(count, entry.shape.back());
    if (!next) return malformed(file, name, "shape " + shown(*shape) + " overflows");
    count = *next;
  }
  const auto bytes = product(count, type->size_bytes);
  if (!bytes) return malformed(file, name, "shape " + shown(*shape) + " overflows");
  entry.element_count = count;
  entry.size_bytes = *bytes;
  if (auto offsets = read_offsets(declared, area, file, entry); !offsets) return offsets.error();
  return entry;
}

/// The header's text, after its length was checked against the file.
result<std::string_view> header_text(std::span<const std::byte> file, std::string_view name) {
  std::uint64_t length = 0;
  if (file.size() < sizeof length)
    return malformed(name,
                     "its " + std::to_string(file.size()) + " bytes are too few for a safetensors file");
  std::memcpy(&length, file.data(), sizeof length);
  if (length > safetensors_header_limit_bytes)
    return malformed(name, "header length " + std::to_string(length) + " is above the limit of " +
                               std::to_string(safetensors_header_limit_bytes));
  if (length > file.size() - sizeof length)
    return malformed(name, "header length " + std::to_string(length) + " is beyond the end of the file (" +
                               std::to_string(file.size()) + " bytes)");
  return std::string_view(reinterpret_cast<const char*>(file.data()) + sizeof length, length);
}

}  // namespace

result<std::vector<tensor_entry>> parse_safetensors(std::span<const std::byte> file, std::string_view name) {
  const auto text = header_text(file, name);
  if (!text) return text.error();
  auto header = parse_json_object(*text, std::string(name) + ": header", {.depth = header_depth_limit});
  if (!header) return header.error();
  const std::uint64_t begin = sizeof(std::uint64_t) + text->size();
  const data_area area{begin, file.size() - begin};

  std::vector<tensor_entry> entries;
  for (const auto& [tensor, declared] : header->items()) {
    if (tensor == "__metadata__") continue;
    auto entry = read_entry(tensor, declared, area, name);
    if (!entry) return entry.error();
    entries.push_back(std::move(*entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const tensor_entry& a, const tensor_entry& b) {
    return std::pair(a.offset_bytes, a.size_bytes) < std::pair(b.offset_bytes, b.size_bytes);
  });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const tensor_entry& before = entries[i - 1];
    if (before.offset_bytes + before.size_bytes > entries[i].offset_bytes)
      return malformed(name, entries[i].name, "overlaps tensor " + shown(json(before.name)));
  }
  return entries;
}

result<std::shared_ptr<const mapped_file>> mapped_file::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const errc code = errno == ENOENT ? errc::not_found : errc::io;
    return core::failure<errc>{code, path.string() + ": " + std::strerror(errno)};
  }
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = regular ? static_cast<std::size_t>(status.st_size) : 0;
  // An empty file cannot be mapped; it is reported as what it is by whoever parses it.
  void* begin = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (!regular) return core::failure<errc>{errc::io, path.string() + ": not a file"};
  if (begin == MAP_FAILED)
    return core::failure<errc>{errc::io, path.string() + ": cannot be mapped: " + std::strerror(error)};
  return std::shared_ptr<const mapped_file>(new mapped_file(static_cast<const std::byte*>(begin), size));
}

mapped_file::~mapped_file() {
  if (size_ > 0) ::munmap(const_cast<std::byte*>(begin_), size_);
}

void mapped_file::prefetch(std::span<const std::byte> part) const {
  advise(part, MADV_WILLNEED);
}

void mapped_file::release(std::span<const std::byte> part) const {
  advise(part, MADV_DONTNEED);
}

/// Whole pages: those at the ends may hold parts of neighbours, which at worst are fetched again.
void mapped_file::advise(std::span<const std::byte> part, int advice) const {
  if (part.empty()) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto first = static_cast<std::size_t>(part.data() - begin_) / page * page;
  const auto last = static_cast<std::size_t>(part.data() - begin_) + part.size();
  ::madvise(const_cast<std::byte*>(begin_) + first, last - first, advice);
}

namespace {

/// Which shard holds which tensor, from the index; file names only, so that a model cannot point elsewhere.
result<std::map<std::string, std::vector<std::string>>> read_index(const std::filesystem::path& path) {
  const auto text = read_text_file(path, index_limit_bytes);
  if (!text) return text.error();
  const auto index = parse_json_object(*text, path.string(), {.depth = 8});
  if (!index) return index.error();
  const auto weights = index->find("weight_map");
  if (weights == index->end() || !weights->is_object())
    return malformed(path.string(), "weight_map is not an object");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, shard] : weights->items()) {
    const std::string file = shard.is_string() ? shard.get<std::string>() : "";
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
        file.find('\0') != std::string::npos)
      return malformed(path.string(),
                       "weight_map." + tensor + ": " + shown(shard) + " is not the name of a file");
    shards[file].push_back(tensor);
  }
  if (shards.size() > shard_limit)
    return malformed(path.string(), "names more than " + std::to_string(shard_limit) + " files");
  return shards;
}

result<std::map<std::string, stored_tensor, std::less<>>> open_file(const std::filesystem::path& path) {
  auto file = mapped_file::open(path);
  if (!file) return file.error();
  auto entries = parse_safetensors((*file)->bytes(), path.string());
  if (!entries) return entries.error();
  const auto name = std::make_shared<const std::string>(path.string());
  std::map<std::string, stored_tensor, std::less<>> tensors;
  for (tensor_entry& entry : *entries) {
    std::string key = entry.name;
    tensors.emplace(std::move(key), stored_tensor{std::move(entry), *file, name});
  }
  return tensors;
}

}  // namespace

result<tensor_set> tensor_set::open(const std::filesystem::path& folder) {
  tensor_set set;
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored) || !std::filesystem::exists(index, ignored)) {
    auto tensors = open_file(single);
    if (!tensors) return tensors.error();
    set.tensors_ = std::move(*tensors);
    set.name_ = single.string();
    return set;
  }
  auto shards = read_index(index);
  if (!shards) return shards.error();
  for (const auto& [file, names] : *shards) {
    auto tensors = open_file(folder / file);
    if (!tensors) return tensors.error();
    for (const std::string& name : names) {
      const auto at = tensors->find(name);
      if (at == tensors->end())
        return malformed(index.string(), name,
                         "is not in " + (folder / file).string() + ", where weight_map puts it");
      set.tensors_.insert(tensors->extract(at));
    }
  }
  set.name_ = index.string();
  return set;
}

result<const stored_tensor*> tensor_set::find(std::string_view name,
                                              std::span<const std::uint64_t> shape) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) return malformed(name_, name, "is missing");
  const stored_tensor& tensor = at->second;
  if (!tensor.entry.type)
    return core::failure<errc>{errc::unsupported, *tensor.file_name + ": tensor " + shown(json(name)) +
                                                      ": dtype " + tensor.entry.dtype +
                                                      " is none of F32, F16, BF16"};
  if (!std::equal(shape.begin(), shape.end(), tensor.entry.shape.begin(), tensor.entry.shape.end()))
    return core::failure<errc>{errc::inconsistent, *tensor.file_name + ": tensor " + shown(json(name)) +
                                                       ": shape " + shape_text(tensor.entry.shape) +
                                                       ", but the configuration asks for " +
                                                       shape_text(shape)};
  return &tensor;
}

}  // namespace yolk::model
