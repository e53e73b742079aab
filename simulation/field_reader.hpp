#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

namespace yolk::simulation {

/// Reads an object's fields and keeps the first thing that is wrong, with its path. What is wrong reads as
/// the fallback, so that a caller need not look before the end.
class field_reader {
 public:
  using json = nlohmann::json;
  struct range {
    double least = 0.0;
    double most = 1e15;
  };

  field_reader(const json& object, std::string path, std::optional<std::string>& problem);

  /// Without a fallback the field must be there.
  double number(const char* key, range within, std::optional<double> fallback = std::nullopt);
  template <class Whole>
  Whole whole(const char* key, range within, std::optional<Whole> fallback = std::nullopt) {
    return static_cast<Whole>(
        whole_number(key, within, fallback ? std::optional(static_cast<double>(*fallback)) : std::nullopt));
  }
  std::string text(const char* key, const std::optional<std::string>& fallback = std::nullopt);
  /// An empty object where it is missing.
  const json& object(const char* key);
  const json& array(const char* key);
  [[nodiscard]] bool has(const char* key) const { return object_.is_object() && object_.contains(key); }
  [[nodiscard]] std::string path_of(const std::string& key) const;
  void complain(const std::string& key, const std::string& what);
  /// A field that nobody asked for is a misspelt one.
  void finish();

 private:
  double whole_number(const char* key, range within, std::optional<double> fallback);
  const json* find(const char* key, bool needed);

  const json& object_;
  std::string path_;
  std::optional<std::string>& problem_;
  std::set<std::string> asked_;
};

}  // namespace yolk::simulation
