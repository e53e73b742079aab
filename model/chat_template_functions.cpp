#include "model/chat_template_functions.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "model/unicode_text.hpp"

namespace yolk::model::jinja {

namespace {

constexpr std::size_t max_indent = 64;
constexpr std::size_t max_listed_bytes = 1 << 20;

const text& text_of(const value& subject, std::string_view what) {
  if (const text* bytes = subject.as_text()) return *bytes;
  reject(std::string(what) + " needs text, not " + subject.type_name());
}

/// Where characters begin, and the end: Python counts characters, not bytes.
std::vector<std::size_t> characters(const text& subject, work& budget) {
  budget.spend(subject.size() * 8 + 16);
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < subject.size(); at += utf8_at(subject.bytes, at).length) begins.push_back(at);
  begins.push_back(subject.size());
  return begins;
}

text stripped(const text& subject, const value& set, bool left, bool right) {
  std::string_view rest = subject.bytes;
  if (set.is_undefined() || set.is<none>()) {
    if (left) rest = strip_left(rest);
    const auto begin = static_cast<std::size_t>(rest.data() - subject.bytes.data());
    if (right) rest = strip_right(rest);
    return subject.part(begin, rest.size());
  }
  const std::string& members = text_of(set, "strip").bytes;
  std::size_t begin = 0;
  std::size_t end = rest.size();
  // Sets of ASCII alone are met in templates; a byte of a longer character in the set matches itself.
  while (left && begin < end && members.find(rest[begin]) != std::string::npos) ++begin;
  while (right && end > begin && members.find(rest[end - 1]) != std::string::npos) --end;
  return subject.part(begin, end - begin);
}

text mapped(const text& subject, const std::function<char(char, bool)>& change) {
  text out = subject;
  bool word_begins = true;
  for (char& c : out.bytes) {
    c = change(c, word_begins);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        static_cast<unsigned char>(c) >= 0x80 || c == '\'';
    word_begins = !letter;
  }
  return out;
}
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

text with_case(std::string_view name, const text& subject) {
  if (name == "upper") return mapped(subject, [](char c, bool) { return upper(c); });
  if (name == "lower") return mapped(subject, [](char c, bool) { return lower(c); });
  if (name == "title")
    return mapped(subject, [](char c, bool begins) { return begins ? upper(c) : lower(c); });
  text out = mapped(subject, [](char c, bool) { return lower(c); });
  if (!out.bytes.empty()) out.bytes[0] = upper(out.bytes[0]);
  return out;
}

text replaced(const text& subject, const arguments& given, work& budget) {
  const text& from = text_of(given.get(0, "old"), "replace");
  const text& to = text_of(given.get(1, "new"), "replace");
  const value limit = given.get(2, "count");
  std::int64_t left = limit.whole() ? limit.integer() : -1;
  budget.spend(subject.size());
  if (from.bytes.empty()) return subject;
  text out;
  std::size_t done = 0;
  for (std::size_t at = subject.bytes.find(from.bytes); at != std::string::npos && left != 0;
       at = subject.bytes.find(from.bytes, done), --left) {
    budget.spend(to.size() + 16);
    out.append(subject.part(done, at - done));
    out.append(to);
    done = at + from.size();
  }
  out.append(subject.part(done, std::string::npos));
  return out;
}

list split(const text& subject, const arguments& given, work& budget) {
  const value separator = given.get(0, "sep");
  const value limit = given.get(1, "maxsplit");
  std::int64_t left = limit.whole() ? limit.integer() : -1;
  budget.spend(subject.size() * 2);
  list out;
  std::size_t done = 0;
  if (separator.is_undefined() || separator.is<none>()) {
    const std::string_view bytes = subject.bytes;
    for (;;) {
      done = bytes.size() - strip_left(bytes.substr(done)).size();
      if (done == bytes.size()) return out;
      std::size_t end = done;
      while (end < bytes.size() &&
             !(utf8_at(bytes, end).valid && is_white_space(utf8_at(bytes, end).code_point))) {
        end += utf8_at(bytes, end).length;
      }
      budget.spend(64);
      if (left-- == 0) end = strip_right(bytes).size();
      out.emplace_back(subject.part(done, end - done));
      done = end;
    }
  }
  const std::string& by = text_of(separator, "split").bytes;
  if (by.empty()) reject("split needs a separator that is not empty");
  for (std::size_t at = subject.bytes.find(by); at != std::string::npos && left != 0;
       at = subject.bytes.find(by, done), --left) {
    budget.spend(64);
    out.emplace_back(subject.part(done, at - done));
    done = at + by.size();
  }
  out.emplace_back(subject.part(done, std::string::npos));
  return out;
}

bool begins_or_ends(const text& subject, const value& with, bool begins) {
  if (const list* options = with.as_list()) {
    return std::any_of(options->begin(), options->end(), [&](const value& one) {
      const std::string& bytes = text_of(one, "startswith").bytes;
      return begins ? subject.bytes.starts_with(bytes) : subject.bytes.ends_with(bytes);
    });
  }
  const std::string& bytes = text_of(with, begins ? "startswith" : "endswith").bytes;
  return begins ? subject.bytes.starts_with(bytes) : subject.bytes.ends_with(bytes);
}

value attribute_of(const value& subject, const std::string& path) {
  value current = subject;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t dot = std::min(path.find('.', at), path.size());
    const value* found = current.member(path.substr(at, dot - at));
    if (found == nullptr) return {};
    const value next = *found;
    current = next;
    at = dot + 1;
  }
  return current;
}

list pairs_of(const value& subject, work& budget) {
  list out;
  if (const object* members = subject.as_object()) {
    budget.spend(members->size() * 64);
    for (const auto& [name, member] : *members) out.emplace_back(list{text(name, false), member});
  } else if (!subject.is_undefined()) {
    reject(std::string("items needs an object, not ") + subject.type_name());
  }
  return out;
}

std::int64_t length_of(const value& subject, work& budget) {
  if (const text* bytes = subject.as_text()) return character_count(*bytes, budget);
  if (const list* items = subject.as_list()) return static_cast<std::int64_t>(items->size());
  if (const object* members = subject.as_object()) return static_cast<std::int64_t>(members->size());
  if (subject.is_undefined()) return 0;
  reject(std::string(subject.type_name()) + " has no length");
}

text join(const value& subject, const arguments& given, work& budget) {
  const value between = given.get(0, "d");
  const value attribute = given.get(1, "attribute");
  text out;
  bool first = true;
  for (const value& item : items_of(subject, budget)) {
    if (!std::exchange(first, false) && between.as_text()) {
      budget.spend(between.as_text()->size());
      out.append(*between.as_text());
    }
    out.append((attribute.as_text() ? attribute_of(item, attribute.as_text()->bytes) : item).string(budget));
  }
  return out;
}

text indented(const text& subject, const arguments& given, work& budget) {
  const value width = given.get(0, "width");
  const std::size_t count =
      width.whole() ? static_cast<std::size_t>(std::max<std::int64_t>(width.integer(), 0)) : 4;
  if (count > max_indent) reject("indent is limited to " + std::to_string(max_indent));
  const text blank(width.as_text() ? width.as_text()->bytes : std::string(count, ' '), true);
  const bool first = given.get(1, "first").truthy();
  const bool blanks = given.get(2, "blank").truthy();
  text out;
  std::size_t done = 0;
  bool first_line = true;
  while (done <= subject.size()) {
    const std::size_t end = std::min(subject.bytes.find('\n', done), subject.size());
    budget.spend(end - done + blank.size() + 16);
    if ((first_line ? first : end > done || blanks)) out.append(blank);
    first_line = false;
    out.append(subject.part(done, end - done + 1));
    done = end + 1;
  }
  return out;
}

/// selectattr, rejectattr, select, reject.
list chosen(const value& subject, const arguments& given, work& budget, bool by_attribute, bool keep) {
  list out;
  const std::size_t skip = by_attribute ? 1 : 0;
  const std::string attribute = by_attribute ? text_of(given.get(0, ""), "selectattr").bytes : "";
  const value test = given.get(skip, "");
  arguments rest;
  if (given.placed.size() > skip + 1)
    rest.placed.assign(given.placed.begin() + static_cast<std::ptrdiff_t>(skip) + 1, given.placed.end());
  for (const value& item : items_of(subject, budget)) {
    const value looked_at = by_attribute ? attribute_of(item, attribute) : item;
    const bool passes = test.is_undefined()
                            ? looked_at.truthy()
                            : apply_test(text_of(test, "select").bytes, looked_at, rest, budget);
    if (passes == keep) out.push_back(item);
  }
  return out;
}

list mapped_items(const value& subject, const arguments& given, work& budget) {
  list out;
  const value attribute = given.get(99, "attribute");
  const value otherwise = given.get(99, "default");
  for (const value& item : items_of(subject, budget)) {
    if (attribute.as_text()) {
      value found = attribute_of(item, attribute.as_text()->bytes);
      if (found.is_undefined())
        out.push_back(otherwise);
      else
        out.push_back(std::move(found));
    } else {
      arguments rest;
      if (given.placed.size() > 1) rest.placed.assign(given.placed.begin() + 1, given.placed.end());
      out.push_back(apply_filter(text_of(given.get(0, ""), "map").bytes, item, rest, budget));
    }
  }
  return out;
}

list sorted(list items, const arguments& given, work& budget, std::string attribute) {
  budget.spend(items.size() * 64);
  const value named = given.get(2, "attribute");
  if (named.as_text()) attribute = named.as_text()->bytes;
  std::stable_sort(items.begin(), items.end(), [&](const value& a, const value& b) {
    return attribute.empty() ? less(a, b) : less(attribute_of(a, attribute), attribute_of(b, attribute));
  });
  if (given.get(0, "reverse").truthy()) std::reverse(items.begin(), items.end());
  return items;
}

value to_number(const value& subject, const arguments& given, bool whole) {
  const value otherwise = given.get(0, "default");
  double number = 0;
  if (subject.is_number()) {
    number = subject.number();
  } else if (const text* bytes = subject.as_text()) {
    const std::string_view digits = strip_left(strip_right(bytes->bytes));
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (end.ec != std::errc() || end.ptr != digits.data() + digits.size())
      number = otherwise.is_number() ? otherwise.number() : 0;
  }
  if (!whole) return number;
  if (!(std::abs(number) < 9e15)) reject("a number is too large for a whole one");
  return static_cast<std::int64_t>(number);
}

list unique(const value& subject, work& budget) {
  list out;
  for (const value& item : items_of(subject, budget)) {
    if (std::none_of(out.begin(), out.end(), [&](const value& other) { return equal(item, other, budget); }))
      out.push_back(item);
  }
  return out;
}

value text_filter(std::string_view name, const value& subject, const arguments& given, work& budget) {
  const text bytes = subject.string(budget);
  if (name == "trim") return stripped(bytes, given.get(0, "chars"), true, true);
  if (name == "replace") return replaced(bytes, given, budget);
  if (name == "indent") return indented(bytes, given, budget);
  if (name == "string" || name == "safe") return bytes;
  return with_case(name, bytes);
}

value list_filter(std::string_view name, const value& subject, const arguments& given, work& budget) {
  if (name == "selectattr") return chosen(subject, given, budget, true, true);
  if (name == "rejectattr") return chosen(subject, given, budget, true, false);
  if (name == "select") return chosen(subject, given, budget, false, true);
  if (name == "reject") return chosen(subject, given, budget, false, false);
  if (name == "map") return mapped_items(subject, given, budget);
  if (name == "items") return pairs_of(subject, budget);
  if (name == "dictsort") return sorted(pairs_of(subject, budget), {}, budget, "");
  if (name == "unique") return unique(subject, budget);
  list items = items_of(subject, budget);
  if (name == "sort") return sorted(std::move(items), given, budget, "");
  if (name == "first") return items.empty() ? value() : items.front();
  if (name == "last") return items.empty() ? value() : items.back();
  if (name == "reverse") {
    std::reverse(items.begin(), items.end());
    if (!subject.as_text()) return items;
    text out;
    for (const value& item : items) out.append(*item.as_text());
    return out;
  }
  return items;  // list
}

}  // namespace

value arguments::get(std::size_t place, std::string_view name) const {
  for (const auto& [given, argument] : named) {
    if (given == name) return argument;
  }
  return place < placed.size() ? placed[place] : value();
}

value apply_filter(std::string_view name, const value& subject, const arguments& given, work& budget) {
  budget.spend(16);
  if (name == "default" || name == "d") {
    const bool missing = subject.is_undefined() || (given.get(1, "boolean").truthy() && !subject.truthy());
    return missing ? (given.placed.empty() && given.named.empty() ? value::own("")
                                                                  : given.get(0, "default_value"))
                   : subject;
  }
  if (name == "length" || name == "count") return length_of(subject, budget);
  if (name == "join") return join(subject, given, budget);
  if (name == "int") return to_number(subject, given, true);
  if (name == "float") return to_number(subject, given, false);
  if (name == "abs")
    return subject.whole() ? value(std::abs(subject.integer())) : value(std::abs(subject.number()));
  if (name == "tojson") {
    const value indent = given.get(0, "indent");
    const std::int64_t width = indent.whole() ? indent.integer() : -1;
    if (width > static_cast<std::int64_t>(max_indent))
      reject("indent is limited to " + std::to_string(max_indent));
    return to_json(subject, static_cast<int>(std::max<std::int64_t>(width, -1)), budget);
  }
  for (const std::string_view of_text :
       {"trim", "replace", "indent", "string", "safe", "upper", "lower", "title", "capitalize"}) {
    if (name == of_text) return text_filter(name, subject, given, budget);
  }
  for (const std::string_view of_list : {"selectattr", "rejectattr", "select", "reject", "map", "items",
                                         "dictsort", "unique", "sort", "first", "last", "reverse", "list"}) {
    if (name == of_list) return list_filter(name, subject, given, budget);
  }
  reject("the filter \"" + std::string(name.substr(0, 40)) + "\" is not supported");
}

bool apply_test(std::string_view name, const value& subject, const arguments& given, work& budget) {
  budget.spend(16);
  if (name == "defined") return !subject.is_undefined();
  if (name == "undefined") return subject.is_undefined();
  if (name == "none" || name == "None") return subject.is<none>();
  if (name == "string") return subject.as_text() != nullptr;
  if (name == "boolean") return subject.is<bool>();
  if (name == "number") return subject.is_number();
  if (name == "integer") return subject.is<std::int64_t>();
  if (name == "float") return subject.is<double>();
  if (name == "mapping") return subject.as_object() != nullptr;
  if (name == "iterable" || name == "sequence") {
    return subject.as_text() != nullptr || subject.as_list() != nullptr || subject.as_object() != nullptr ||
           subject.is_undefined();
  }
  if (name == "callable") return subject.as_callable() != nullptr;
  if (name == "true") return subject.is<bool>() && subject.truthy();
  if (name == "false") return subject.is<bool>() && !subject.truthy();
  if (name == "equalto" || name == "eq") return equal(subject, given.get(0, ""), budget);
  if (name == "ne") return !equal(subject, given.get(0, ""), budget);
  if (name == "in") return contains(given.get(0, ""), subject, budget);
  if (name == "odd") return subject.integer() % 2 != 0;
  if (name == "even") return subject.integer() % 2 == 0;
  if (name == "divisibleby") {
    const std::int64_t by = given.get(0, "").integer();
    if (by == 0) reject("nothing is divisible by 0");
    return by == -1 || subject.integer() % by == 0;
  }
  reject("the test \"" + std::string(name.substr(0, 40)) + "\" is not supported");
}

bool has_method(const value& subject, std::string_view name) {
  const auto any = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (subject.as_text()) {
    return any({"strip", "lstrip", "rstrip", "split", "startswith", "endswith", "replace", "upper", "lower",
                "title", "capitalize", "join", "find", "count"});
  }
  if (subject.as_object()) return any({"items", "keys", "values", "get"});
  return false;
}

value call_method(const value& subject, std::string_view name, const arguments& given, work& budget) {
  budget.spend(16);
  if (const text* bytes = subject.as_text()) {
    budget.spend(bytes->size());
    if (name == "strip") return stripped(*bytes, given.get(0, "chars"), true, true);
    if (name == "lstrip") return stripped(*bytes, given.get(0, "chars"), true, false);
    if (name == "rstrip") return stripped(*bytes, given.get(0, "chars"), false, true);
    if (name == "split") return split(*bytes, given, budget);
    if (name == "startswith") return begins_or_ends(*bytes, given.get(0, ""), true);
    if (name == "endswith") return begins_or_ends(*bytes, given.get(0, ""), false);
    if (name == "replace") return replaced(*bytes, given, budget);
    if (name == "join") return join(given.get(0, ""), {{subject}, {}}, budget);
    if (name == "find" || name == "count") {
      const std::string& wanted = text_of(given.get(0, ""), name).bytes;
      const std::size_t at = bytes->bytes.find(wanted);
      if (name == "find") {
        if (at == std::string::npos) return std::int64_t{-1};
        return static_cast<std::int64_t>(characters(bytes->part(0, at), budget).size() - 1);
      }
      std::int64_t count = 0;
      for (std::size_t next = at; next != std::string::npos && !wanted.empty();
           next = bytes->bytes.find(wanted, next + wanted.size()))
        ++count;
      return count;
    }
    return with_case(name, *bytes);
  }
  if (const object* members = subject.as_object()) {
    budget.spend(members->size() * 16);
    if (name == "items") return pairs_of(subject, budget);
    if (name == "get") {
      const value* found = subject.member(text_of(given.get(0, ""), "get").bytes);
      if (found != nullptr) return *found;
      return given.placed.size() > 1 ? given.placed[1] : value(none{});
    }
    list out;
    for (const auto& [key, member] : *members)
      out.push_back(name == "keys" ? value(text(key, false)) : member);
    return out;
  }
  reject(std::string(subject.type_name()) + " has no method " + std::string(name.substr(0, 40)));
}

bool contains(const value& container, const value& item, work& budget) {
  if (const text* bytes = container.as_text()) {
    budget.spend(bytes->size());
    return bytes->bytes.find(text_of(item, "in").bytes) != std::string::npos;
  }
  if (const list* items = container.as_list()) {
    return std::any_of(items->begin(), items->end(),
                       [&](const value& other) { return equal(item, other, budget); });
  }
  if (container.as_object())
    return item.as_text() != nullptr && container.member(item.as_text()->bytes) != nullptr;
  if (container.is_undefined()) return false;
  reject(std::string("nothing is in ") + container.type_name());
}

std::int64_t character_count(const text& subject, work& budget) {
  budget.spend(subject.size());
  std::int64_t count = 0;
  for (std::size_t at = 0; at < subject.size(); at += utf8_at(subject.bytes, at).length) ++count;
  return count;
}

list items_of(const value& subject, work& budget) {
  list out;
  if (const list* items = subject.as_list()) {
    budget.spend(items->size() * 16);
    return *items;
  }
  if (const object* members = subject.as_object()) {
    budget.spend(members->size() * 64);
    for (const auto& [name, member] : *members) out.emplace_back(text(name, false));
    return out;
  }
  if (const text* bytes = subject.as_text()) {
    if (bytes->size() > max_listed_bytes) {
      reject("text of " + std::to_string(bytes->size()) + " bytes is taken apart, the limit is " +
                 std::to_string(max_listed_bytes),
             errc::malformed);
    }
    const std::vector<std::size_t> begins = characters(*bytes, budget);
    budget.spend(bytes->size() * 64);
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      out.emplace_back(bytes->part(begins[i], begins[i + 1] - begins[i]));
    return out;
  }
  if (subject.is_undefined()) return out;
  reject(std::string(subject.type_name()) + " cannot be gone through");
}

value item_at(const value& subject, const value& index, work& budget) {
  if (subject.as_object()) {
    const value* found = index.as_text() ? subject.member(index.as_text()->bytes) : nullptr;
    return found == nullptr ? value() : *found;
  }
  if (!index.whole()) return {};
  const auto place = [&](std::size_t count) {
    const std::int64_t at = index.integer();
    return at < 0 ? at + static_cast<std::int64_t>(count) : at;
  };
  if (const list* items = subject.as_list()) {
    const std::int64_t at = place(items->size());
    return at < 0 || at >= static_cast<std::int64_t>(items->size()) ? value()
                                                                    : (*items)[static_cast<std::size_t>(at)];
  }
  if (const text* bytes = subject.as_text()) {
    const std::vector<std::size_t> begins = characters(*bytes, budget);
    const std::int64_t at = place(begins.size() - 1);
    if (at < 0 || at >= static_cast<std::int64_t>(begins.size()) - 1) return {};
    const auto i = static_cast<std::size_t>(at);
    return bytes->part(begins[i], begins[i + 1] - begins[i]);
  }
  return {};
}

value slice_of(const value& subject, const value& begin, const value& end, const value& step, work& budget) {
  const text* bytes = subject.as_text();
  const list* items = subject.as_list();
  if (bytes == nullptr && items == nullptr) reject(std::string(subject.type_name()) + " cannot be sliced");
  std::vector<std::size_t> begins;
  if (bytes != nullptr) begins = characters(*bytes, budget);
  const auto count = static_cast<std::int64_t>(bytes != nullptr ? begins.size() - 1 : items->size());
  const std::int64_t stride = step.whole() ? step.integer() : 1;
  if (stride == 0) reject("a slice's step is 0");
  // Python's rule: negative places count from the end, then all are clamped.
  const std::int64_t lowest = stride > 0 ? 0 : -1;
  const std::int64_t highest = stride > 0 ? count : count - 1;
  const auto clamped = [&](const value& place, std::int64_t otherwise) {
    if (!place.whole()) return otherwise;
    const std::int64_t at = place.integer();
    return std::clamp(at < 0 ? at + count : at, lowest, highest);
  };
  const std::int64_t from = clamped(begin, stride > 0 ? lowest : highest);
  const std::int64_t to = clamped(end, stride > 0 ? highest : lowest);
  budget.spend(static_cast<std::uint64_t>(count) * 16);
  list out_items;
  text out_bytes;
  if (bytes != nullptr && stride == 1) {
    if (from >= to) return out_bytes;
    const std::size_t at = begins[static_cast<std::size_t>(from)];
    return bytes->part(at, begins[static_cast<std::size_t>(to)] - at);
  }
  for (std::int64_t i = from; stride > 0 ? i < to : i > to; i += stride) {
    const auto at = static_cast<std::size_t>(i);
    if (bytes != nullptr) {
      out_bytes.append(bytes->part(begins[at], begins[at + 1] - begins[at]));
    } else {
      out_items.push_back((*items)[at]);
    }
    if (std::abs(stride) > count) break;
  }
  return bytes != nullptr ? value(std::move(out_bytes)) : value(std::move(out_items));
}

}  // namespace yolk::model::jinja
