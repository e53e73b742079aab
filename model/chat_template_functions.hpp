#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat_template_value.hpp"

namespace yolk::model::jinja {

/// What a filter, test, function or method was called with.
struct arguments {
  std::vector<value> placed;
  std::vector<std::pair<std::string, value>> named;
  /// By name, else by place; undefined where it was not given.
  [[nodiscard]] value get(std::size_t place, std::string_view name) const;
};

value apply_filter(std::string_view name, const value& subject, const arguments& given, work& budget);
bool apply_test(std::string_view name, const value& subject, const arguments& given, work& budget);
/// Whether `subject`'s type has a method of that name.
bool has_method(const value& subject, std::string_view name);
value call_method(const value& subject, std::string_view name, const arguments& given, work& budget);

/// `a in b`
bool contains(const value& container, const value& item, work& budget);
/// Python counts characters, not bytes.
std::int64_t character_count(const text& subject, work& budget);
/// What a loop over `subject` goes through. Rejects long text: a value for each character takes a hundred
/// times more.
list items_of(const value& subject, work& budget);
value item_at(const value& subject, const value& index, work& budget);
value slice_of(const value& subject, const value& begin, const value& end, const value& step, work& budget);

}  // namespace yolk::model::jinja
