// The bytes are a config.json, and then its generation_config.json; whatever is accepted must be usable.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/invariant.hpp"
#include "model/config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto config = yolk::model::parse_config(text, "config.json");
  if (!config) {
    YOLK_INVARIANT(config.error().message.starts_with("config.json: "), config.error().message);
    return 0;
  }
  YOLK_INVARIANT(config->kv_head_count > 0 && config->query_head_count % config->kv_head_count == 0);
  YOLK_INVARIANT(config->head_dim >= 2 && config->head_dim % 2 == 0, config->head_dim);
  YOLK_INVARIANT(config->context_length <= yolk::model::context_length_limit, config->context_length);
  YOLK_INVARIANT(config->kv_layout(16).block_bytes() > 0);
  if (yolk::model::apply_generation_config(*config, text, "generation_config.json"))
    for (const auto token : config->end_tokens) YOLK_INVARIANT(token < config->vocabulary_size, token);
  return 0;
}
