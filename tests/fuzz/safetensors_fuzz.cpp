// The bytes are a whole safetensors file; whatever is accepted must lie within it.
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/invariant.hpp"
#include "model/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto entries =
      yolk::model::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
  if (!entries) {
    YOLK_INVARIANT(entries.error().message.starts_with("fuzz.safetensors: "), entries.error().message);
    return 0;
  }
  std::uint64_t end = 8;
  for (const yolk::model::tensor_entry& entry : *entries) {
    YOLK_INVARIANT(entry.offset_bytes >= end, entry.name, entry.offset_bytes, end);
    end = entry.offset_bytes + entry.size_bytes;
    YOLK_INVARIANT(end >= entry.offset_bytes && end <= size, entry.name, end, size);
  }
  return 0;
}
