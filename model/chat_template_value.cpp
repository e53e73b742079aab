#include "model/chat_template_value.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace yolk::model::jinja {

void reject(std::string why, errc code) {
  throw fault{code, std::move(why)};
}

std::int64_t value::integer() const {
  if (const auto* flag = std::get_if<bool>(&state_)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<std::int64_t>(&state_)) return *number;
  reject(std::string("a whole number is needed, not ") + type_name());
}

double value::number() const {
  if (const auto* number = std::get_if<double>(&state_)) return *number;
  return static_cast<double>(integer());
}

bool value::truthy() const {
  if (const auto* flag = std::get_if<bool>(&state_)) return *flag;
  if (const auto* number = std::get_if<std::int64_t>(&state_)) return *number != 0;
  if (const auto* number = std::get_if<double>(&state_)) return *number != 0;
  if (const text* bytes = as_text()) return !bytes->bytes.empty();
  if (const list* items = as_list()) return !items->empty();
  if (const object* members = as_object()) return !members->empty();
  return as_callable() != nullptr;
}

const char* value::type_name() const {
  static constexpr std::array<const char*, 9> names = {"undefined",      "none",      "a boolean",
                                                       "a whole number", "a number",  "text",
                                                       "a list",         "an object", "a function"};
  return names[state_.index()];
}

const value* value::member(std::string_view name) const {
  const object* members = as_object();
  if (members == nullptr) return nullptr;
  const auto found =
      std::find_if(members->begin(), members->end(), [&](const auto& entry) { return entry.first == name; });
  return found == members->end() ? nullptr : &found->second;
}

namespace {

std::string digits_of(double number) {
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  std::string out(buffer.data(), end);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

/// Python's repr() of a text within a list: in single quotes.
text quoted(const text& inner) {
  text out("'", false);
  for (std::size_t i = 0; i < inner.bytes.size(); ++i) {
    const char c = inner.bytes[i];
    if (c == '\\' || c == '\'') out.append(text("\\", false));
    if (c == '\n') {
      out.append(text("\\n", false));
    } else {
      out.append(inner.part(i, 1));
    }
  }
  out.append(text("'", false));
  return out;
}

text nested(const value& item, work& budget, int depth) {
  if (const text* bytes = item.as_text()) {
    budget.spend(bytes->size());
    return quoted(*bytes);
  }
  return item.string(budget, depth + 1);
}

}  // namespace

text value::string(work& budget, int depth) const {
  budget.spend(16);
  if (depth > max_value_depth) reject("a value is nested deeper than " + std::to_string(max_value_depth));
  if (const text* bytes = as_text()) {
    budget.spend(bytes->size());
    return *bytes;
  }
  if (is<none>()) return text("None", true);
  if (const auto* flag = std::get_if<bool>(&state_)) return text(*flag ? "True" : "False", true);
  if (const auto* number = std::get_if<std::int64_t>(&state_)) return text(std::to_string(*number), true);
  if (const auto* number = std::get_if<double>(&state_)) return text(digits_of(*number), true);
  text out;
  if (const list* items = as_list()) {
    out = text("[", false);
    for (std::size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out.append(text(", ", false));
      out.append(nested((*items)[i], budget, depth));
    }
    out.append(text("]", false));
  } else if (const object* members = as_object()) {
    out = text("{", false);
    for (std::size_t i = 0; i < members->size(); ++i) {
      if (i > 0) out.append(text(", ", false));
      out.append(quoted(text((*members)[i].first, false)));
      out.append(text(": ", false));
      out.append(nested((*members)[i].second, budget, depth));
    }
    out.append(text("}", false));
  } else if (as_callable() != nullptr) {
    reject("a function cannot be written out");
  }
  return out;
}

bool equal(const value& a, const value& b, work& budget, int depth) {
  budget.spend(16);
  if (depth > max_value_depth) reject("a value is nested deeper than " + std::to_string(max_value_depth));
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.as_text() && b.as_text()) return a.as_text()->bytes == b.as_text()->bytes;
  if (a.as_list() && b.as_list()) {
    return std::equal(a.as_list()->begin(), a.as_list()->end(), b.as_list()->begin(), b.as_list()->end(),
                      [&](const value& x, const value& y) { return equal(x, y, budget, depth + 1); });
  }
  if (a.as_object() && b.as_object()) {
    const object& members = *a.as_object();
    return members.size() == b.as_object()->size() &&
           std::all_of(members.begin(), members.end(), [&](const auto& entry) {
             const value* other = b.member(entry.first);
             return other != nullptr && equal(entry.second, *other, budget, depth + 1);
           });
  }
  return (a.is<none>() && b.is<none>()) || (a.is_undefined() && b.is_undefined());
}

bool less(const value& a, const value& b) {
  if (a.is_number() && b.is_number()) return a.number() < b.number();
  if (a.as_text() && b.as_text()) return a.as_text()->bytes < b.as_text()->bytes;
  reject(std::string(a.type_name()) + " and " + b.type_name() + " have no order");
}

namespace {

std::string json_text(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          constexpr std::string_view digits = "0123456789abcdef";
          out += "\\u00";
          out += digits[static_cast<unsigned char>(c) >> 4];
          out += digits[c & 15];
        } else {
          out += c;
        }
    }
  }
  out += '"';
  return out;
}

void break_line(std::string& out, int indent, int depth) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
}

void write_json(const value& subject, int indent, int depth, work& budget, std::string& out) {
  budget.spend(16 +
               (indent > 0 ? static_cast<std::uint64_t>(indent) * static_cast<std::uint64_t>(depth) : 0));
  if (depth > max_value_depth) reject("a value is nested deeper than " + std::to_string(max_value_depth));
  const std::string_view comma = indent < 0 ? ", " : ",";
  if (const text* bytes = subject.as_text()) {
    budget.spend(bytes->size() * 2);
    out += json_text(bytes->bytes);
  } else if (const list* items = subject.as_list()) {
    out += '[';
    for (std::size_t i = 0; i < items->size(); ++i) {
      if (i > 0) out += comma;
      break_line(out, indent, depth + 1);
      write_json((*items)[i], indent, depth + 1, budget, out);
    }
    if (!items->empty()) break_line(out, indent, depth);
    out += ']';
  } else if (const object* members = subject.as_object()) {
    out += '{';
    for (std::size_t i = 0; i < members->size(); ++i) {
      if (i > 0) out += comma;
      break_line(out, indent, depth + 1);
      out += json_text((*members)[i].first) + ": ";
      write_json((*members)[i].second, indent, depth + 1, budget, out);
    }
    if (!members->empty()) break_line(out, indent, depth);
    out += '}';
  } else if (subject.is<bool>()) {
    out += subject.truthy() ? "true" : "false";
  } else if (subject.is<none>()) {
    out += "null";
  } else if (subject.is_number()) {
    out += subject.string(budget).bytes;
  } else {
    reject(std::string(subject.type_name()) + " has no JSON");
  }
}

}  // namespace

text to_json(const value& subject, int indent, work& budget) {
  std::string out;
  write_json(subject, indent, 0, budget, out);
  return text(out, false);
}

}  // namespace yolk::model::jinja
