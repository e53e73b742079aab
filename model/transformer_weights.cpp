#include "model/transformer_weights.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/bfloat16.hpp"
#include "kvcache/block_header.hpp"

namespace yolk::model {

namespace {

struct tensor_wish {
  std::string name;
  std::vector<std::uint64_t> shape;
};

using wishes = std::vector<tensor_wish>;

/// Names and shapes of one layer's parts, as Hugging Face calls them.
class layer_names {
 public:
  layer_names(const model_config& config, std::uint32_t layer)
      : prefix_("model.layers." + std::to_string(layer) + "."),
        hidden_(config.hidden_size),
        inner_(config.intermediate_size),
        q_rows_(std::uint64_t{config.query_head_count} * config.head_dim),
        kv_rows_(std::uint64_t{config.kv_head_count} * config.head_dim),
        head_dim_(config.head_dim) {}

  [[nodiscard]] tensor_wish attention_norm() const { return {prefix_ + "input_layernorm.weight", {hidden_}}; }
  [[nodiscard]] tensor_wish mlp_norm() const {
    return {prefix_ + "post_attention_layernorm.weight", {hidden_}};
  }
  [[nodiscard]] tensor_wish q_norm() const { return {prefix_ + "self_attn.q_norm.weight", {head_dim_}}; }
  [[nodiscard]] tensor_wish k_norm() const { return {prefix_ + "self_attn.k_norm.weight", {head_dim_}}; }
  [[nodiscard]] wishes qkv() const {
    return {{prefix_ + "self_attn.q_proj.weight", {q_rows_, hidden_}},
            {prefix_ + "self_attn.k_proj.weight", {kv_rows_, hidden_}},
            {prefix_ + "self_attn.v_proj.weight", {kv_rows_, hidden_}}};
  }
  [[nodiscard]] wishes qkv_bias() const {
    return {{prefix_ + "self_attn.q_proj.bias", {q_rows_}},
            {prefix_ + "self_attn.k_proj.bias", {kv_rows_}},
            {prefix_ + "self_attn.v_proj.bias", {kv_rows_}}};
  }
  [[nodiscard]] wishes output() const { return {{prefix_ + "self_attn.o_proj.weight", {hidden_, q_rows_}}}; }
  [[nodiscard]] wishes gate_up() const {
    return {{prefix_ + "mlp.gate_proj.weight", {inner_, hidden_}},
            {prefix_ + "mlp.up_proj.weight", {inner_, hidden_}}};
  }
  [[nodiscard]] wishes down() const { return {{prefix_ + "mlp.down_proj.weight", {hidden_, inner_}}}; }

 private:
  std::string prefix_;
  std::uint64_t hidden_;
  std::uint64_t inner_;
  std::uint64_t q_rows_;
  std::uint64_t kv_rows_;
  std::uint64_t head_dim_;
};

tensor_wish embedding_wish(const model_config& config) {
  return {"model.embed_tokens.weight", {config.vocabulary_size, config.hidden_size}};
}
tensor_wish head_wish(const model_config& config) {
  return {"lm_head.weight", {config.vocabulary_size, config.hidden_size}};
}
tensor_wish final_norm_wish(const model_config& config) {
  return {"model.norm.weight", {config.hidden_size}};
}

/// IEEE binary16, widened exactly.
float half_to_float(std::uint16_t half) {
  const float magnitude = [&] {
    const std::uint32_t exponent = (half >> 10) & 0x1fu;
    const std::uint32_t fraction = half & 0x3ffu;
    if (exponent == 0) return static_cast<float>(fraction) * 0x1p-24f;
    if (exponent == 31) return std::bit_cast<float>(0x7f800000u | (fraction << 13));
    return std::bit_cast<float>(((exponent + 112) << 23) | (fraction << 13));
  }();
  return (half & 0x8000u) != 0 ? -magnitude : magnitude;
}

template <class Element>
Element element_at(std::span<const std::byte> bytes, std::size_t index) {
  Element out;
  std::memcpy(&out, bytes.data() + index * sizeof out, sizeof out);
  return out;
}

void append_floats(const stored_tensor& tensor, std::vector<float>& out) {
  const std::span<const std::byte> bytes = tensor.bytes();
  for (std::size_t i = 0; i < tensor.entry.element_count; ++i) {
    switch (*tensor.entry.type) {
      case gpu::dtype::f32:
        out.push_back(element_at<float>(bytes, i));
        break;
      case gpu::dtype::f16:
        out.push_back(half_to_float(element_at<std::uint16_t>(bytes, i)));
        break;
      case gpu::dtype::bf16:
        out.push_back(core::to_float({element_at<std::uint16_t>(bytes, i)}));
        break;
    }
  }
}

/// Takes tensors out of the files. The first failure is kept, later calls do nothing: the caller asks once at
/// the end.
class weight_reader {
 public:
  weight_reader(const tensor_set& tensors, gpu::platform& platform)
      : tensors_(tensors), platform_(platform) {}

  /// Several matrices of equal width, stacked by rows.
  packed_matrix matrix(const wishes& parts) {
    std::vector<gpu::matrix_view> views;
    std::vector<std::vector<std::byte>> aligned(parts.size());
    std::vector<const stored_tensor*> stored;
    for (const tensor_wish& part : parts) {
      const stored_tensor* tensor = find(part);
      if (tensor == nullptr) return nullptr;
      stored.push_back(tensor);
      views.push_back({aligned_data(*tensor, aligned[views.size()]), *tensor->entry.type,
                       tensor->entry.shape[0], tensor->entry.shape[1]});
    }
    auto packed = platform_.pack(views);
    for (const stored_tensor* tensor : stored) tensor->file->release(tensor->bytes());
    if (!packed) {
      failure_ = {errc::unsupported, *stored[0]->file_name + ": tensor \"" + parts[0].name +
                                         "\": cannot be packed: " + packed.error().message};
      if (packed.error().code == gpu::errc::out_of_memory) failure_->code = errc::out_of_memory;
      return nullptr;
    }
    memory_bytes_ += (*packed)->bytes();
    return std::move(*packed);
  }

  /// Several vectors, one after another.
  std::vector<float> floats(const wishes& parts) {
    std::vector<float> out;
    for (const tensor_wish& part : parts) {
      const stored_tensor* tensor = find(part);
      if (tensor == nullptr) return {};
      append_floats(*tensor, out);
      tensor->file->release(tensor->bytes());
    }
    memory_bytes_ += out.size() * sizeof(float);
    return out;
  }

  [[nodiscard]] const std::optional<core::failure<errc>>& failure() const { return failure_; }
  [[nodiscard]] kvcache::block_key content() const { return content_; }
  [[nodiscard]] std::uint64_t parameter_count() const { return parameter_count_; }
  [[nodiscard]] std::uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  const stored_tensor* find(const tensor_wish& wish) {
    if (failure_) return nullptr;
    const auto tensor = tensors_.find(wish.name, wish.shape);
    if (!tensor) {
      failure_ = tensor.error();
      return nullptr;
    }
    parameter_count_ += (*tensor)->entry.element_count;
    (*tensor)->file->prefetch((*tensor)->bytes());
    hash((*tensor)->entry, (*tensor)->bytes());
    return *tensor;
  }

  /// Hashing costs little beside the reading, which must be done anyway; so every byte counts.
  void hash(const tensor_entry& entry, std::span<const std::byte> bytes) {
    std::string description = entry.name + ' ' + entry.dtype;
    for (const std::uint64_t size : entry.shape) description += ' ' + std::to_string(size);
    const std::uint64_t sums[] = {kvcache::checksum(std::as_bytes(std::span(description))),
                                  kvcache::checksum(bytes)};
    const auto words = std::bit_cast<std::array<core::token_id, 4>>(sums);
    content_ = kvcache::chain(content_, words);
  }

  /// A header may have any length, and then no element lies on a multiple of its size: such a tensor is
  /// copied.
  static const void* aligned_data(const stored_tensor& tensor, std::vector<std::byte>& copy) {
    const std::span<const std::byte> bytes = tensor.bytes();
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % gpu::size_of(*tensor.entry.type) == 0)
      return bytes.data();
    copy.assign(bytes.begin(), bytes.end());
    return copy.data();
  }

  const tensor_set& tensors_;
  gpu::platform& platform_;
  std::optional<core::failure<errc>> failure_;
  kvcache::block_key content_;
  std::uint64_t parameter_count_ = 0;
  std::uint64_t memory_bytes_ = 0;
};

layer_weights read_layer(weight_reader& reader, const model_config& config, std::uint32_t layer) {
  const layer_names names(config, layer);
  layer_weights out;
  out.attention_norm = reader.floats({names.attention_norm()});
  out.qkv = reader.matrix(names.qkv());
  if (config.qkv_bias) out.qkv_bias = reader.floats(names.qkv_bias());
  if (config.qk_norm) out.q_norm = reader.floats({names.q_norm()});
  if (config.qk_norm) out.k_norm = reader.floats({names.k_norm()});
  out.output = reader.matrix(names.output());
  out.mlp_norm = reader.floats({names.mlp_norm()});
  out.gate_up = reader.matrix(names.gate_up());
  out.down = reader.matrix(names.down());
  return out;
}

}  // namespace

result<std::shared_ptr<const transformer_weights>> transformer_weights::load(const model_config& config,
                                                                             const tensor_set& tensors,
                                                                             gpu::platform& platform) {
  // Everything is checked before anything is packed: a missing last tensor shows at once.
  if (const auto declared = check_declared_weights(config, tensors); !declared) return declared.error();
  auto out = std::make_shared<transformer_weights>();
  weight_reader reader(tensors, platform);
  // The largest matrices come first, while memory is still empty.
  out->embedding = reader.matrix({embedding_wish(config)});
  out->head = config.tied_embeddings ? out->embedding : reader.matrix({head_wish(config)});
  out->final_norm = reader.floats({final_norm_wish(config)});
  for (std::uint32_t layer = 0; layer < config.layer_count && !reader.failure(); ++layer)
    out->layers.push_back(read_layer(reader, config, layer));
  if (reader.failure()) return *reader.failure();
  out->rope = make_rope_tables(config);
  out->content = reader.content();
  out->parameter_count = reader.parameter_count();
  out->memory_bytes = reader.memory_bytes();
  return std::shared_ptr<const transformer_weights>(std::move(out));
}

result<declared_weights> check_declared_weights(const model_config& config, const tensor_set& tensors) {
  wishes all = {embedding_wish(config), final_norm_wish(config)};
  if (!config.tied_embeddings) all.push_back(head_wish(config));
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    const layer_names names(config, layer);
    all.insert(all.end(), {names.attention_norm(), names.mlp_norm()});
    if (config.qk_norm) all.insert(all.end(), {names.q_norm(), names.k_norm()});
    for (const wishes& parts : {names.qkv(), config.qkv_bias ? names.qkv_bias() : wishes(), names.output(),
                                names.gate_up(), names.down()})
      all.insert(all.end(), parts.begin(), parts.end());
  }
  declared_weights out;
  for (const tensor_wish& wish : all) {
    const auto tensor = tensors.find(wish.name, wish.shape);
    if (!tensor) return tensor.error();
    if (out.dtype.empty()) out.dtype = (*tensor)->entry.dtype;
    out.parameter_count += (*tensor)->entry.element_count;
    out.file_bytes += (*tensor)->entry.size_bytes;
  }
  return out;
}

}  // namespace yolk::model
