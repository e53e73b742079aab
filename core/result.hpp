#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "core/invariant.hpp"

namespace yolk::core {

/// An expected failure: a room's error code and one sentence that names what, where and the limit.
template <class Code>
struct failure {
  Code code;
  std::string message;
};

/// Nothing, as a value: result<void_t, E> is "done, or why not".
struct void_t {};

/// Either a value or a failure over a room's error enum (each room aliases it: `kvcache::result<T>`).
/// Exceptions do not cross a room's border; this does.
template <class T, class Code>
class [[nodiscard]] result {
 public:
  using value_type = T;
  using code_type = Code;

  result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  result(core::failure<Code> error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  [[nodiscard]] T& value() & {
    check();
    return std::get<0>(state_);
  }
  [[nodiscard]] const T& value() const& {
    check();
    return std::get<0>(state_);
  }
  [[nodiscard]] T&& value() && {
    check();
    return std::get<0>(std::move(state_));
  }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

  [[nodiscard]] const core::failure<Code>& error() const {
    YOLK_INVARIANT(!has_value());
    return std::get<1>(state_);
  }

 private:
  void check() const { YOLK_INVARIANT(has_value(), std::get<1>(state_).message); }

  std::variant<T, core::failure<Code>> state_;
};

}  // namespace yolk::core
