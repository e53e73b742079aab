#include "simulation/field_reader.hpp"

#include <cmath>
#include <sstream>

namespace yolk::simulation {

namespace {

const nlohmann::json empty_object = nlohmann::json::object();
const nlohmann::json empty_array = nlohmann::json::array();

std::string show(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

field_reader::field_reader(const json& object, std::string path, std::optional<std::string>& problem)
    : object_(object), path_(std::move(path)), problem_(problem) {
  if (!object.is_object() && !problem_) problem_ = path_ + ": is not an object";
}

std::string field_reader::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

void field_reader::complain(const std::string& key, const std::string& what) {
  if (!problem_) problem_ = path_of(key) + ": " + what;
}

const nlohmann::json* field_reader::find(const char* key, bool needed) {
  asked_.insert(key);
  if (object_.is_object())
    if (const auto found = object_.find(key); found != object_.end()) return &*found;
  if (needed) complain(key, "is missing");
  return nullptr;
}

double field_reader::number(const char* key, range within, std::optional<double> fallback) {
  const auto* found = find(key, !fallback);
  if (found == nullptr) return fallback.value_or(within.least);
  if (!found->is_number()) {
    complain(key, found->dump() + " is not a number");
    return within.least;
  }
  const auto value = found->get<double>();
  if (value >= within.least && value <= within.most) return value;
  complain(key, found->dump() + " is not within " + show(within.least) + " and " + show(within.most));
  return within.least;
}

double field_reader::whole_number(const char* key, range within, std::optional<double> fallback) {
  const double value = number(key, within, fallback);
  if (value != std::floor(value)) complain(key, show(value) + " is not a whole number");
  return std::floor(value);
}

std::string field_reader::text(const char* key, const std::optional<std::string>& fallback) {
  const auto* found = find(key, !fallback);
  if (found == nullptr) return fallback.value_or("");
  if (found->is_string()) return found->get<std::string>();
  complain(key, found->dump() + " is not a text");
  return "";
}

const nlohmann::json& field_reader::object(const char* key) {
  const auto* found = find(key, false);
  if (found == nullptr) return empty_object;
  if (found->is_object()) return *found;
  complain(key, "is not an object");
  return empty_object;
}

const nlohmann::json& field_reader::array(const char* key) {
  const auto* found = find(key, true);
  if (found == nullptr) return empty_array;
  if (found->is_array()) return *found;
  complain(key, "is not an array");
  return empty_array;
}

void field_reader::finish() {
  if (!object_.is_object()) return;
  for (const auto& [key, value] : object_.items())
    if (!asked_.contains(key)) complain(key, "is no field of this object");
}

}  // namespace yolk::simulation
