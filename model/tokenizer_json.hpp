#pragma once

// Private to the readers of tokenizer files: the one header of this library that brings nlohmann/json in.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ids.hpp"
#include "model/errc.hpp"

namespace yolk::model::files {

using nlohmann::json;

/// The readers' own way out of deep checks: caught where reading begins, never passed on.
struct fault {
  errc code = errc::malformed;
  std::string field;
  std::string why;
};

[[noreturn]] inline void reject(std::string field, std::string why, errc code = errc::malformed) {
  throw fault{code, std::move(field), std::move(why)};
}

/// tokenizer.json without its two large tables, which are read straight into vectors: a tree of nodes of a
/// file of 30 MB takes 1 GB.
struct split_document {
  json tree;
  std::vector<std::pair<std::string, core::token_id>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
};
/// Throws fault.
split_document parse_document(std::string_view text);

}  // namespace yolk::model::files
