#include "model/chat_template_render.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/unicode_text.hpp"

namespace yolk::model::jinja {

namespace {

constexpr std::uint64_t node_cost = 16;
constexpr int max_calls = 32;
constexpr std::int64_t max_range = 100'000;
/// For templates that call strftime_now without asking whether there is one: the date that Llama 3.1's falls
/// back to.
constexpr std::chrono::year_month_day no_date{std::chrono::year(2024), std::chrono::July,
                                              std::chrono::day(26)};

bool is_function(std::string_view name) {
  return name == "raise_exception" || name == "namespace" || name == "range" || name == "strftime_now" ||
         name == "dict";
}

/// The directives of strftime that templates use.
text date_text(std::string_view format, std::chrono::year_month_day date) {
  static constexpr std::array<std::string_view, 12> months = {
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  static constexpr std::array<std::string_view, 7> days = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                           "Thursday", "Friday", "Saturday"};
  const unsigned month = static_cast<unsigned>(date.month());
  const unsigned day = static_cast<unsigned>(date.day());
  const std::string_view weekday = days[std::chrono::weekday(std::chrono::sys_days(date)).c_encoding()];
  const auto two = [](unsigned number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    switch (format[++i]) {
      case 'd':
        out += two(day);
        break;
      case 'm':
        out += two(month);
        break;
      case 'Y':
        out += std::to_string(static_cast<int>(date.year()));
        break;
      case 'b':
        out += months[month - 1].substr(0, 3);
        break;
      case 'B':
        out += months[month - 1];
        break;
      case 'a':
        out += weekday.substr(0, 3);
        break;
      case 'A':
        out += weekday;
        break;
      case 'H':
      case 'M':
      case 'S':
        out += "00";
        break;
      case '%':
        out += '%';
        break;
      default:
        reject(std::string("strftime_now: %") + format[i] + " is not supported");
    }
  }
  return text(out, true);
}

value arithmetic(const std::string& sign, const value& a, const value& b) {
  if (a.whole() && b.whole() && sign != "/") {
    const std::int64_t x = a.integer();
    const std::int64_t y = b.integer();
    std::int64_t out = 0;
    bool overflow = false;
    if (sign == "+") overflow = __builtin_add_overflow(x, y, &out);
    if (sign == "-") overflow = __builtin_sub_overflow(x, y, &out);
    if (sign == "*") overflow = __builtin_mul_overflow(x, y, &out);
    if (sign == "//" || sign == "%") {
      if (y == 0) reject("division by 0");
      if (y == -1) return sign == "%" ? std::int64_t{0} : -std::max(x, -INT64_MAX);
      // Python rounds down, C++ towards zero.
      const bool down = x % y != 0 && (x < 0) != (y < 0);
      out = sign == "//" ? x / y - (down ? 1 : 0) : x % y + (down ? y : 0);
    }
    if (overflow) reject("a whole number is out of range");
    return out;
  }
  const double x = a.number();
  const double y = b.number();
  if ((sign == "/" || sign == "//" || sign == "%") && y == 0) reject("division by 0");
  if (sign == "+") return x + y;
  if (sign == "-") return x - y;
  if (sign == "*") return x * y;
  if (sign == "/") return x / y;
  if (sign == "//") return std::floor(x / y);
  return x - y * std::floor(x / y);
}

}  // namespace

renderer::renderer(object variables, std::optional<std::chrono::year_month_day> today, work budget)
    : today_(today), budget_(budget) {
  scopes_.push_back(std::move(variables));
}

renderer::~renderer() {
  // A namespace may hold itself.
  for (const value& space : namespaces_) space.as_object()->clear();
}

text renderer::run(const body& statements) {
  text out;
  execute(statements, out);
  return out;
}

renderer::flow renderer::execute(const body& statements, text& out) {
  for (const node_ptr& statement : statements) {
    const flow after = execute(*statement, out);
    if (after != flow::on) return after;
  }
  return flow::on;
}

void renderer::write(const value& subject, text& out) {
  out.append(subject.string(budget_));
}

renderer::flow renderer::execute(const node& statement, text& out) {
  budget_.spend(node_cost);
  switch (statement.what) {
    case node::kind::text:
      write(statement.literal, out);
      return flow::on;
    case node::kind::output:
      write(evaluate(*statement.items[0]), out);
      return flow::on;
    case node::kind::branch:
      for (std::size_t i = 0; i < statement.items.size(); ++i) {
        if (evaluate(*statement.items[i]).truthy()) return execute(statement.bodies[i], out);
      }
      if (statement.bodies.size() > statement.items.size()) return execute(statement.bodies.back(), out);
      return flow::on;
    case node::kind::loop:
      return loop(statement, out);
    case node::kind::set:
      assign(*statement.items[0], evaluate(*statement.items[1]));
      return flow::on;
    case node::kind::set_block: {
      text inner;
      const flow after = execute(statement.bodies[0], inner);
      assign(*statement.items[0], std::move(inner));
      return after;
    }
    case node::kind::macro:
      assign(statement, callable{statement.name, nullptr, &statement});
      return flow::on;
    case node::kind::leave:
      return flow::leave;
    case node::kind::next:
      return flow::next;
    case node::kind::group:
      return execute(statement.bodies[0], out);
    default:
      reject("a statement is missing");
  }
}

list renderer::kept_items(const node& statement, const value& subject) {
  list items = items_of(subject, budget_);
  if (!statement.items[1]) return items;
  list kept;
  scopes_.emplace_back();
  for (const value& item : items) {
    scopes_.back().clear();
    bind(statement.names, item);
    if (evaluate(*statement.items[1]).truthy()) kept.push_back(item);
  }
  scopes_.pop_back();
  return kept;
}

renderer::flow renderer::loop(const node& statement, text& out) {
  const value subject = evaluate(*statement.items[0]);
  if (subject.as_text() && !statement.items[1]) return character_loop(statement, *subject.as_text(), out);
  const list items = kept_items(statement, subject);
  if (items.empty()) return execute(statement.bodies[1], out);
  const auto count = static_cast<std::int64_t>(items.size());
  flow after = flow::on;
  for (std::int64_t i = 0; i < count && after != flow::leave; ++i) {
    const auto at = static_cast<std::size_t>(i);
    after =
        round(statement, items[at],
              {i, count, i == 0 ? value() : items[at - 1], i + 1 == count ? value() : items[at + 1]}, out);
  }
  return flow::on;
}

/// Some templates go through a content letter by letter, looking for images in it: without a list of 16
/// million values.
renderer::flow renderer::character_loop(const node& statement, const text& subject, text& out) {
  const auto count = character_count(subject, budget_);
  if (count == 0) return execute(statement.bodies[1], out);
  flow after = flow::on;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < count && after != flow::leave; ++i) {
    const std::size_t length = utf8_at(subject.bytes, at).length;
    after = round(statement, subject.part(at, length), {i, count, {}, {}}, out);
    at += length;
  }
  return flow::on;
}

renderer::flow renderer::round(const node& statement, const value& item, const place& where, text& out) {
  budget_.spend(256);
  const auto& [i, count, previous, next] = where;
  scopes_.emplace_back();
  bind(statement.names, item);
  scopes_.back().emplace_back("loop", object{{"index", i + 1},
                                             {"index0", i},
                                             {"first", i == 0},
                                             {"last", i + 1 == count},
                                             {"length", count},
                                             {"revindex", count - i},
                                             {"revindex0", count - i - 1},
                                             {"previtem", previous},
                                             {"nextitem", next}});
  const flow after = execute(statement.bodies[0], out);
  scopes_.pop_back();
  return after;
}

void renderer::bind(const std::vector<std::string>& names, const value& item) {
  if (names.size() == 1) {
    scopes_.back().emplace_back(names[0], item);
    return;
  }
  const list parts = items_of(item, budget_);
  if (parts.size() != names.size())
    reject("a loop over " + std::to_string(names.size()) + " names meets " + std::to_string(parts.size()) +
           " values");
  for (std::size_t i = 0; i < names.size(); ++i) scopes_.back().emplace_back(names[i], parts[i]);
}

void renderer::assign(const node& target, value result) {
  object* members = &scopes_.back();
  value owner;
  if (target.what == node::kind::attribute) {
    owner = evaluate(*target.items[0]);
    members = owner.as_object();
    if (members == nullptr) reject("\"" + target.name + "\" cannot be set on " + owner.type_name());
  }
  for (auto& [name, member] : *members) {
    if (name == target.name) {
      member = std::move(result);
      return;
    }
  }
  members->emplace_back(target.name, std::move(result));
}

value renderer::lookup(const std::string& name) const {
  const auto in = [&](const scope& where) -> const value* {
    for (auto entry = where.rbegin(); entry != where.rend(); ++entry) {
      if (entry->first == name) return &entry->second;
    }
    return nullptr;
  };
  for (std::size_t i = scopes_.size(); i > base_; --i) {
    if (const value* found = in(scopes_[i - 1])) return *found;
  }
  if (const value* found = in(scopes_[0])) return *found;
  if (name == "strftime_now" && !today_) return {};
  if (is_function(name)) return callable{name, nullptr, nullptr};
  return {};
}

value renderer::evaluate(const node& expression) {
  budget_.spend(node_cost);
  const auto item = [&](std::size_t i) -> const node& { return *expression.items[i]; };
  const auto optional = [&](std::size_t i) { return evaluate_or(expression.items[i].get(), value()); };
  switch (expression.what) {
    case node::kind::literal:
      return expression.literal;
    case node::kind::variable:
      return lookup(expression.name);
    case node::kind::attribute:
      return attribute(evaluate(item(0)), expression);
    case node::kind::subscript: {
      const value subject = evaluate(item(0));
      if (subject.is_undefined()) reject("an item is taken of what is undefined", errc::malformed);
      const value index = evaluate(item(1));
      return item_at(subject, index, budget_);
    }
    case node::kind::slice: {
      const value subject = evaluate(item(0));
      return slice_of(subject, optional(1), optional(2), optional(3), budget_);
    }
    case node::kind::call:
      return call(expression);
    case node::kind::filter: {
      const value subject = evaluate(item(0));
      return apply_filter(expression.name, subject, given(expression), budget_);
    }
    case node::kind::test: {
      const value subject = evaluate(item(0));
      return apply_test(expression.name, subject, given(expression), budget_);
    }
    case node::kind::unary:
      return unary(expression);
    case node::kind::binary:
      return binary(expression);
    case node::kind::conditional:
      return evaluate(item(1)).truthy() ? evaluate(item(0)) : evaluate_or(expression.items[2].get(), value());
    case node::kind::list: {
      list out;
      for (const node_ptr& one : expression.items) out.push_back(evaluate(*one));
      return out;
    }
    case node::kind::object: {
      object out;
      for (std::size_t i = 0; i + 1 < expression.items.size(); i += 2) {
        out.emplace_back(evaluate(item(i)).string(budget_).bytes, evaluate(item(i + 1)));
      }
      return out;
    }
    default:
      reject("an expression is missing");
  }
}

value renderer::unary(const node& expression) {
  const value subject = evaluate(*expression.items[0]);
  if (expression.name == "not") return !subject.truthy();
  if (expression.name == "-")
    return subject.whole() ? arithmetic("-", std::int64_t{0}, subject) : value(-subject.number());
  return subject.whole() ? value(subject.integer()) : value(subject.number());
}

value renderer::binary(const node& expression) {
  const std::string& sign = expression.name;
  const value left = evaluate(*expression.items[0]);
  if (sign == "and") return left.truthy() ? evaluate(*expression.items[1]) : left;
  if (sign == "or") return left.truthy() ? left : evaluate(*expression.items[1]);
  const value right = evaluate(*expression.items[1]);
  if (sign == "==") return equal(left, right, budget_);
  if (sign == "!=") return !equal(left, right, budget_);
  if (sign == "<") return less(left, right);
  if (sign == ">") return less(right, left);
  if (sign == "<=") return !less(right, left);
  if (sign == ">=") return !less(left, right);
  if (sign == "in") return contains(right, left, budget_);
  if (sign == "not in") return !contains(right, left, budget_);
  if (sign == "~" || (sign == "+" && left.as_text() && right.as_text())) {
    text out = left.string(budget_);
    out.append(right.string(budget_));
    return out;
  }
  if (sign == "+" && left.as_list() && right.as_list()) {
    list out = items_of(left, budget_);
    const list more = items_of(right, budget_);
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  if (left.is_number() && right.is_number()) return arithmetic(sign, left, right);
  // What a message lacks is the caller's fault, not the template's.
  const bool missing = left.is_undefined() || right.is_undefined();
  reject("\"" + sign + "\" between " + left.type_name() + " and " + right.type_name(),
         missing ? errc::malformed : errc::unsupported);
}

value renderer::attribute(const value& subject, const node& expression) {
  if (const value* found = subject.member(expression.name)) return *found;
  if (has_method(subject, expression.name))
    return callable{expression.name, std::make_shared<const value>(subject), nullptr};
  if (subject.is_undefined())
    reject("\"" + expression.name + "\" is taken of what is undefined", errc::malformed);
  return {};
}

arguments renderer::given(const node& expression) {
  arguments out;
  for (std::size_t i = 1; i < expression.items.size(); ++i)
    out.placed.push_back(evaluate(*expression.items[i]));
  for (const auto& [name, argument] : expression.named) out.named.emplace_back(name, evaluate(*argument));
  return out;
}

value renderer::call(const node& expression) {
  const node& named = *expression.items[0];
  value function = evaluate(named);
  if (function.is_undefined() && named.what == node::kind::variable && named.name == "strftime_now") {
    function = callable{named.name, nullptr, nullptr};
  }
  const callable* target = function.as_callable();
  if (target == nullptr) {
    reject("\"" + named.name + "\" is " + function.type_name() + " and cannot be called");
  }
  const arguments arguments = given(expression);
  if (target->macro != nullptr) return call_macro(*target->macro, arguments);
  if (target->self != nullptr) return call_method(*target->self, target->name, arguments, budget_);
  return call_function(target->name, arguments);
}

value renderer::call_function(const std::string& name, const arguments& given) {
  if (name == "raise_exception") {
    const value message = given.get(0, "message");
    reject(message.string(budget_).bytes, errc::malformed);
  }
  if (name == "strftime_now") {
    const text* format = given.get(0, "format").as_text();
    if (format == nullptr) reject("strftime_now needs a format");
    return date_text(format->bytes, today_.value_or(no_date));
  }
  if (name == "namespace" || name == "dict") {
    object members;
    for (const auto& [member, argument] : given.named) members.emplace_back(member, argument);
    value out(std::move(members));
    namespaces_.push_back(out);
    return out;
  }
  const bool from_zero = given.placed.size() < 2;
  const std::int64_t begin = from_zero ? 0 : given.placed[0].integer();
  const std::int64_t end = given.get(from_zero ? 0 : 1, "stop").integer();
  const std::int64_t step = given.placed.size() > 2 ? given.placed[2].integer() : 1;
  const bool sane =
      std::abs(begin) <= max_range && std::abs(end) <= max_range && step != 0 && std::abs(step) <= max_range;
  if (!sane) reject("range is limited to " + std::to_string(max_range));
  list out;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) out.emplace_back(i);
  budget_.spend(out.size() * 16);
  return out;
}

value renderer::call_macro(const node& macro, const arguments& given) {
  if (++calls_ > max_calls) reject("macros call each other deeper than " + std::to_string(max_calls));
  scope parameters;
  for (std::size_t i = 0; i < macro.named.size(); ++i) {
    const auto& [name, otherwise] = macro.named[i];
    value argument = given.get(i, name);
    if (argument.is_undefined() && otherwise) argument = evaluate(*otherwise);
    parameters.emplace_back(name, std::move(argument));
  }
  const std::size_t base = std::exchange(base_, scopes_.size());
  scopes_.push_back(std::move(parameters));
  text out;
  execute(macro.bodies[0], out);
  scopes_.pop_back();
  base_ = base;
  --calls_;
  return out;
}

}  // namespace yolk::model::jinja
