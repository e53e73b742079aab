#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/errc.hpp"

namespace yolk::model::jinja {

/// Why a template was not parsed or not rendered; caught where chat_template's functions begin, never passed
/// on.
struct fault {
  errc code = errc::unsupported;
  std::string why;
};
[[noreturn]] void reject(std::string why, errc code = errc::unsupported);

/// How much a rendering may still do, in bytes made and parts visited: templates can loop and double texts,
/// and share values so that writing them out takes for ever.
struct work {
  std::uint64_t left = 0;
  void spend(std::uint64_t amount) {
    if (amount > left) reject("the template takes more work than its limit");
    left -= amount;
  }
};

/// Text that knows of each byte whether it is the template's own (then special tokens in it are meant) or
/// came with a message. Every operation carries that along.
struct text {
  std::string bytes;
  std::string marks;  ///< as long as bytes; 1 = the template's own

  text() = default;
  text(std::string_view own_or_not, bool own)
      : bytes(own_or_not), marks(own_or_not.size(), own ? '\1' : '\0') {}
  void append(const text& other) {
    bytes += other.bytes;
    marks += other.marks;
  }
  [[nodiscard]] std::size_t size() const { return bytes.size(); }
  [[nodiscard]] text part(std::size_t begin, std::size_t length) const {
    text out;
    out.bytes = bytes.substr(begin, length);
    out.marks = marks.substr(begin, length);
    return out;
  }
};

class value;
using list = std::vector<value>;
using object = std::vector<std::pair<std::string, value>>;  ///< in order of insertion, as Python's
struct node;

struct undefined {};
struct none {};
/// A function of the environment or a method taken from a value; called with the arguments evaluated.
struct callable {
  std::string name;
  std::shared_ptr<const value> self;  ///< null for functions
  const node* macro = nullptr;        ///< of the template itself
};

/// A value of Jinja: small, copied freely; lists, objects and text are shared (a namespace is an object that
/// is written through).
class value {
 public:
  value() = default;
  value(none) : state_(none{}) {}                 // NOLINT(google-explicit-constructor)
  value(bool flag) : state_(flag) {}              // NOLINT(google-explicit-constructor)
  value(std::int64_t number) : state_(number) {}  // NOLINT(google-explicit-constructor)
  value(double number) : state_(number) {}        // NOLINT(google-explicit-constructor)
  value(text bytes)
      : state_(std::make_shared<const text>(std::move(bytes))) {}  // NOLINT(google-explicit-constructor)
  value(list items)
      : state_(std::make_shared<list>(std::move(items))) {}  // NOLINT(google-explicit-constructor)
  value(object members)
      : state_(std::make_shared<object>(std::move(members))) {}  // NOLINT(google-explicit-constructor)
  value(callable function)
      : state_(std::make_shared<const callable>(std::move(function))) {
  }  // NOLINT(google-explicit-constructor)
  static value own(std::string_view bytes) { return text(bytes, true); }

  template <class T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(state_);
  }
  [[nodiscard]] bool is_undefined() const { return is<undefined>(); }
  [[nodiscard]] bool is_number() const { return is<std::int64_t>() || is<double>() || is<bool>(); }
  [[nodiscard]] const text* as_text() const { return shared<const text>(); }
  [[nodiscard]] list* as_list() const { return shared<list>(); }
  [[nodiscard]] object* as_object() const { return shared<object>(); }
  [[nodiscard]] const callable* as_callable() const { return shared<const callable>(); }
  [[nodiscard]] std::int64_t integer() const;  ///< of a bool or whole number; else rejects
  [[nodiscard]] double number() const;
  [[nodiscard]] bool whole() const { return is<std::int64_t>() || is<bool>(); }

  [[nodiscard]] bool truthy() const;
  /// As str() writes it. Rejects what is nested deeper than templates need.
  [[nodiscard]] text string(work& budget, int depth = 0) const;
  [[nodiscard]] const char* type_name() const;
  [[nodiscard]] const value* member(std::string_view name) const;  ///< of an object; null where there is none

 private:
  template <class T>
  [[nodiscard]] T* shared() const {
    const auto* pointer = std::get_if<std::shared_ptr<T>>(&state_);
    return pointer == nullptr ? nullptr : pointer->get();
  }
  std::variant<undefined, none, bool, std::int64_t, double, std::shared_ptr<const text>,
               std::shared_ptr<list>, std::shared_ptr<object>, std::shared_ptr<const callable>>
      state_;
};

inline constexpr int max_value_depth = 32;

bool equal(const value& a, const value& b, work& budget, int depth = 0);
/// For < and sort: numbers among numbers, text among text; else rejects.
bool less(const value& a, const value& b);
/// json.dumps with Python's separators.
text to_json(const value& subject, int indent, work& budget);

}  // namespace yolk::model::jinja
