#pragma once

#include <filesystem>
#include <string_view>

#include "model/errc.hpp"
#include "model/loaded_model.hpp"

namespace yolk::model {

/// The longest context that any configuration may ask for: rotation tables of that many positions are held in
/// memory.
inline constexpr std::uint32_t context_length_limit = 1u << 20;

/// Checks the text of a config.json (`name` is the file, for errors). Every number is range-checked; whatever
/// would change the arithmetic and is not implemented (mixtures of experts, other activations, biases,
/// rotations or quantisations) is errc::unsupported, naming file, field and value.
result<model_config> parse_config(std::string_view text, std::string_view name);

/// Replaces the end tokens by those of a generation_config.json, where it names any.
result<core::void_t> apply_generation_config(model_config& config, std::string_view text,
                                             std::string_view name);

/// config.json and, where present, generation_config.json of a folder.
result<model_config> load_config(const std::filesystem::path& folder);

}  // namespace yolk::model
