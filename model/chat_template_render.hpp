#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "model/chat_template_functions.hpp"
#include "model/chat_template_parser.hpp"

namespace yolk::model::jinja {

/// Renders one template once. Made on its caller's stack; throws fault.
class renderer {
 public:
  /// `variables`: what the template can name. `today`: for strftime_now; where absent that function is not
  /// defined.
  renderer(object variables, std::optional<std::chrono::year_month_day> today, work budget);
  ~renderer();
  renderer(const renderer&) = delete;
  renderer& operator=(const renderer&) = delete;

  text run(const body& statements);

 private:
  enum class flow { on, leave, next };
  using scope = object;

  flow execute(const body& statements, text& out);
  flow execute(const node& statement, text& out);
  struct place {
    std::int64_t index;
    std::int64_t count;
    value previous;
    value next;
  };
  flow loop(const node& statement, text& out);
  flow character_loop(const node& statement, const text& subject, text& out);
  flow round(const node& statement, const value& item, const place& where, text& out);
  list kept_items(const node& statement, const value& subject);
  void write(const value& subject, text& out);
  void assign(const node& target, value result);

  value evaluate(const node& expression);
  value evaluate_or(const node* expression, value otherwise) {
    return expression ? evaluate(*expression) : std::move(otherwise);
  }
  value binary(const node& expression);
  value unary(const node& expression);
  value attribute(const value& subject, const node& expression);
  value call(const node& expression);
  value call_function(const std::string& name, const arguments& given);
  value call_macro(const node& macro, const arguments& given);
  arguments given(const node& expression);
  value lookup(const std::string& name) const;
  void bind(const std::vector<std::string>& names, const value& item);

  std::vector<scope> scopes_;
  std::size_t base_ = 0;  ///< a macro sees its own scopes and the outermost
  std::vector<value> namespaces_;
  std::optional<std::chrono::year_month_day> today_;
  work budget_;
  int calls_ = 0;
};

}  // namespace yolk::model::jinja
