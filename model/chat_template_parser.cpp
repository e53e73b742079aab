#include "model/chat_template_parser.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "model/chat_template_lexer.hpp"

namespace yolk::model::jinja {

namespace {

constexpr std::size_t max_template_bytes = 1 << 20;
/// Of parentheses, blocks and operands: what recursion over the source and over the tree is bounded by.
constexpr int max_depth = 160;

constexpr std::array<std::string_view, 31> known_filters = {
    "trim",   "tojson", "length", "count", "upper",   "lower",   "title",      "capitalize",
    "first",  "last",   "list",   "join",  "default", "d",       "selectattr", "rejectattr",
    "map",    "items",  "string", "int",   "float",   "replace", "reverse",    "sort",
    "unique", "indent", "safe",   "abs",   "select",  "reject",  "dictsort"};
constexpr std::array<std::string_view, 21> known_tests = {
    "defined", "undefined", "none",     "string",   "number", "integer",     "float",
    "boolean", "mapping",   "iterable", "sequence", "true",   "false",       "equalto",
    "eq",      "ne",        "in",       "odd",      "even",   "divisibleby", "callable"};

class parser {
 public:
  explicit parser(std::vector<token> tokens) : tokens_(std::move(tokens)) {}

  body run() {
    body out = statements({});
    if (peek().what != token::kind::end) fail("a block that was never opened ends here");
    return out;
  }

 private:
  using kind = node::kind;

  [[nodiscard]] const token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const token& take() {
    const token& taken = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return taken;
  }
  [[noreturn]] void fail(const std::string& why) const {
    reject("line " + std::to_string(peek().line) + ": " + why);
  }
  [[nodiscard]] bool at_sign(std::string_view sign) const {
    return peek().what == token::kind::sign && peek().text == sign;
  }
  [[nodiscard]] bool at_name(std::string_view name) const {
    return peek().what == token::kind::name && peek().text == name;
  }
  bool take_sign(std::string_view sign) {
    if (!at_sign(sign)) return false;
    take();
    return true;
  }
  bool take_name(std::string_view name) {
    if (!at_name(name)) return false;
    take();
    return true;
  }
  void need_sign(std::string_view sign) {
    if (!take_sign(sign)) fail("\"" + std::string(sign) + "\" is missing");
  }
  std::string need_name() {
    if (peek().what != token::kind::name) fail("a name is missing");
    return take().text;
  }
  void need(token::kind what, const char* text) {
    if (peek().what != what) fail(std::string(text) + " is missing");
    take();
  }

  /// Counts how deep the parser stands in the source.
  struct level {
    explicit level(parser& owner) : owner_(owner) {
      if (++owner_.level_ > max_depth) owner_.fail("nested deeper than " + std::to_string(max_depth));
    }
    ~level() { --owner_.level_; }
    level(const level&) = delete;
    level& operator=(const level&) = delete;
    parser& owner_;
  };

  [[nodiscard]] node_ptr make(kind what, std::string name = "") const {
    auto out = std::make_unique<node>();
    out->what = what;
    out->name = std::move(name);
    return out;
  }
  /// Adds operands, and keeps the tree's depth within its bound (operators in a row nest to the left).
  void adopt(node& parent, node_ptr child) const {
    if (child) parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > 4 * max_depth)
      fail("an expression is nested deeper than " + std::to_string(4 * max_depth));
    parent.items.push_back(std::move(child));
  }

  // ---- statements

  [[nodiscard]] bool at_block(std::string_view name) const {
    return peek().what == token::kind::open_block && peek(1).what == token::kind::name &&
           peek(1).text == name;
  }
  [[nodiscard]] bool at_any(const std::vector<std::string_view>& ends) const {
    return std::any_of(ends.begin(), ends.end(), [&](std::string_view name) { return at_block(name); });
  }

  body statements(const std::vector<std::string_view>& ends) {
    const level deeper(*this);
    body out;
    while (peek().what != token::kind::end && !at_any(ends)) {
      if (peek().what == token::kind::text) {
        node_ptr text = make(kind::text);
        text->literal = value::own(take().text);
        out.push_back(std::move(text));
      } else if (peek().what == token::kind::open_output) {
        take();
        node_ptr output = make(kind::output);
        adopt(*output, tuple());
        need(token::kind::close_output, "\"}}\"");
        out.push_back(std::move(output));
      } else {
        if (level_ == 1 && peek(1).text.starts_with("end")) break;
        need(token::kind::open_block, "a tag");
        out.push_back(block());
      }
    }
    return out;
  }
  void close() { need(token::kind::close_block, "\"%}\""); }
  void end_block(std::string_view name) {
    if (!at_block(name)) fail("\"" + std::string(name) + "\" is missing");
    take();
    take();
    while (peek().what == token::kind::name) take();  // {% endmacro name %}
    close();
  }

  node_ptr block() {
    const std::string name = need_name();
    if (name == "if") return branch();
    if (name == "for") return loop();
    if (name == "set") return set();
    if (name == "macro") return macro();
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail("\"" + name + "\" outside of a loop");
      close();
      return make(name == "break" ? kind::leave : kind::next);
    }
    if (name == "generation") {
      close();
      return rest_of(make(kind::group), "endgeneration");
    }
    fail("the block \"" + name.substr(0, 40) + "\" is not supported");
  }
  node_ptr rest_of(node_ptr out, std::string_view end) {
    out->bodies.push_back(statements({end}));
    end_block(end);
    return out;
  }

  node_ptr branch() {
    node_ptr out = make(kind::branch);
    adopt(*out, expression());
    close();
    out->bodies.push_back(statements({"elif", "else", "endif"}));
    while (at_block("elif")) {
      take();
      take();
      adopt(*out, expression());
      close();
      out->bodies.push_back(statements({"elif", "else", "endif"}));
    }
    if (at_block("else")) {
      take();
      take();
      close();
      out->bodies.push_back(statements({"endif"}));
    }
    end_block("endif");
    return out;
  }

  node_ptr loop() {
    node_ptr out = make(kind::loop);
    const bool parenthesis = take_sign("(");
    do {
      out->names.push_back(need_name());
    } while (take_sign(","));
    if (parenthesis) need_sign(")");
    if (!take_name("in")) fail("\"in\" is missing");
    adopt(*out, or_expression());
    adopt(*out, take_name("if") ? expression() : nullptr);
    if (take_name("recursive")) fail("a recursive loop is not supported");
    close();
    ++loops_;
    out->bodies.push_back(statements({"else", "endfor"}));
    --loops_;
    out->bodies.emplace_back();
    if (at_block("else")) {
      take();
      take();
      close();
      out->bodies.back() = statements({"endfor"});
    }
    end_block("endfor");
    return out;
  }

  node_ptr set() {
    node_ptr target = make(kind::variable, need_name());
    while (take_sign(".")) {
      node_ptr inner = make(kind::attribute, need_name());
      adopt(*inner, std::move(target));
      target = std::move(inner);
    }
    if (at_sign(",")) fail("setting several names at once is not supported");
    if (take_sign("=")) {
      node_ptr out = make(kind::set);
      adopt(*out, std::move(target));
      adopt(*out, tuple());
      close();
      return out;
    }
    if (at_sign("|")) fail("a filter on a set block is not supported");
    close();
    node_ptr out = make(kind::set_block);
    adopt(*out, std::move(target));
    return rest_of(std::move(out), "endset");
  }

  node_ptr macro() {
    node_ptr out = make(kind::macro, need_name());
    need_sign("(");
    while (!at_sign(")")) {
      std::string name = need_name();
      out->named.emplace_back(std::move(name), take_sign("=") ? expression() : nullptr);
      if (!take_sign(",")) break;
    }
    need_sign(")");
    close();
    const int loops = std::exchange(loops_, 0);
    out = rest_of(std::move(out), "endmacro");
    loops_ = loops;
    return out;
  }

  // ---- expressions, from the loosest operator to the tightest, as Jinja 2 binds them

  /// a, b, c without parentheses is a list.
  node_ptr tuple() {
    node_ptr first = expression();
    if (!at_sign(",")) return first;
    node_ptr out = make(kind::list);
    adopt(*out, std::move(first));
    while (take_sign(",")) {
      if (peek().what == token::kind::close_block || peek().what == token::kind::close_output || at_sign(")"))
        break;
      adopt(*out, expression());
    }
    return out;
  }

  node_ptr expression() {
    const level deeper(*this);
    node_ptr out = or_expression();
    while (take_name("if")) {
      node_ptr choice = make(kind::conditional);
      adopt(*choice, std::move(out));
      adopt(*choice, or_expression());
      adopt(*choice, take_name("else") ? expression() : nullptr);
      out = std::move(choice);
    }
    return out;
  }

  node_ptr binary(std::string name, node_ptr left, node_ptr right) const {
    node_ptr out = make(kind::binary, std::move(name));
    adopt(*out, std::move(left));
    adopt(*out, std::move(right));
    return out;
  }
  node_ptr or_expression() {
    node_ptr left = and_expression();
    while (take_name("or")) left = binary("or", std::move(left), and_expression());
    return left;
  }
  node_ptr and_expression() {
    node_ptr left = not_expression();
    while (take_name("and")) left = binary("and", std::move(left), not_expression());
    return left;
  }
  node_ptr not_expression() {
    if (!take_name("not")) return comparison();
    const level deeper(*this);
    node_ptr out = make(kind::unary, "not");
    adopt(*out, not_expression());
    return out;
  }
  node_ptr comparison() {
    node_ptr left = sum();
    for (;;) {
      std::string sign;
      if (peek().what == token::kind::sign && (at_sign("==") || at_sign("!=") || at_sign("<") ||
                                               at_sign("<=") || at_sign(">") || at_sign(">="))) {
        sign = take().text;
      } else if (take_name("in")) {
        sign = "in";
      } else if (at_name("not") && peek(1).text == "in") {
        take();
        take();
        sign = "not in";
      } else {
        return left;
      }
      left = binary(sign, std::move(left), sum());
    }
  }
  node_ptr sum() {
    node_ptr left = joined();
    while (at_sign("+") || at_sign("-")) {
      const std::string sign = take().text;
      left = binary(sign, std::move(left), joined());
    }
    return left;
  }
  node_ptr joined() {
    node_ptr left = product();
    while (take_sign("~")) left = binary("~", std::move(left), product());
    return left;
  }
  node_ptr product() {
    node_ptr left = unary(true);
    while (at_sign("*") || at_sign("/") || at_sign("//") || at_sign("%")) {
      const std::string sign = take().text;
      left = binary(sign, std::move(left), unary(true));
    }
    return left;
  }
  node_ptr unary(bool with_filters) {
    node_ptr out;
    if (at_sign("-") || at_sign("+")) {
      const level deeper(*this);
      out = make(kind::unary, take().text);
      adopt(*out, unary(false));
    } else {
      out = postfix(primary());
    }
    return with_filters ? filters(std::move(out)) : std::move(out);
  }

  node_ptr primary() {
    const token& here = take();
    switch (here.what) {
      case token::kind::name: {
        static constexpr std::array<std::pair<std::string_view, int>, 6> constants = {
            {{"true", 1}, {"True", 1}, {"false", 0}, {"False", 0}, {"none", 2}, {"None", 2}}};
        for (const auto& [name, meaning] : constants) {
          if (here.text != name) continue;
          node_ptr out = make(kind::literal);
          out->literal = meaning == 2 ? value(none{}) : value(meaning == 1);
          return out;
        }
        return make(kind::variable, here.text);
      }
      case token::kind::string: {
        std::string text = here.text;
        while (peek().what == token::kind::string) text += take().text;  // 'a' 'b'
        node_ptr out = make(kind::literal);
        out->literal = value::own(text);
        return out;
      }
      case token::kind::integer:
      case token::kind::number:
        return number(here);
      case token::kind::sign:
        if (here.text == "(") return parenthesis();
        if (here.text == "[") return list_of();
        if (here.text == "{") return object_of();
        break;
      default:
        break;
    }
    fail("an expression is missing");
  }
  node_ptr number(const token& here) const {
    node_ptr out = make(kind::literal);
    if (here.what == token::kind::integer) {
      std::int64_t number = 0;
      std::from_chars(here.text.data(), here.text.data() + here.text.size(), number);
      out->literal = number;
    } else {
      double number = 0;
      std::from_chars(here.text.data(), here.text.data() + here.text.size(), number);
      out->literal = number;
    }
    return out;
  }
  node_ptr parenthesis() {
    if (take_sign(")")) return make(kind::list);
    node_ptr out = tuple();
    need_sign(")");
    return out;
  }
  node_ptr list_of() {
    node_ptr out = make(kind::list);
    while (!at_sign("]")) {
      adopt(*out, expression());
      if (!take_sign(",")) break;
    }
    need_sign("]");
    return out;
  }
  node_ptr object_of() {
    node_ptr out = make(kind::object);
    while (!at_sign("}")) {
      adopt(*out, expression());
      need_sign(":");
      adopt(*out, expression());
      if (!take_sign(",")) break;
    }
    need_sign("}");
    return out;
  }

  node_ptr postfix(node_ptr out) {
    for (;;) {
      if (take_sign(".")) {
        const bool index = peek().what == token::kind::integer;
        node_ptr inner = index ? make(kind::subscript) : make(kind::attribute);
        adopt(*inner, std::move(out));
        if (index) {
          adopt(*inner, number(take()));
        } else {
          inner->name = need_name();
        }
        out = std::move(inner);
      } else if (take_sign("[")) {
        out = subscript(std::move(out));
      } else if (at_sign("(")) {
        node_ptr call = make(kind::call);
        adopt(*call, std::move(out));
        arguments(*call);
        out = std::move(call);
      } else {
        return out;
      }
    }
  }
  node_ptr subscript(node_ptr subject) {
    node_ptr first = at_sign(":") ? nullptr : expression();
    if (first && take_sign("]")) {
      node_ptr out = make(kind::subscript);
      adopt(*out, std::move(subject));
      adopt(*out, std::move(first));
      return out;
    }
    node_ptr out = make(kind::slice);
    adopt(*out, std::move(subject));
    adopt(*out, std::move(first));
    need_sign(":");
    adopt(*out, at_sign("]") || at_sign(":") ? nullptr : expression());
    adopt(*out, take_sign(":") && !at_sign("]") ? expression() : nullptr);
    need_sign("]");
    return out;
  }
  void arguments(node& out) {
    need_sign("(");
    while (!at_sign(")")) {
      if (peek().what == token::kind::name && peek(1).what == token::kind::sign && peek(1).text == "=") {
        std::string name = take().text;
        take();
        node_ptr argument = expression();
        out.depth = std::max(out.depth, argument->depth + 1);
        out.named.emplace_back(std::move(name), std::move(argument));
      } else {
        adopt(out, expression());
      }
      if (!take_sign(",")) break;
    }
    need_sign(")");
  }

  node_ptr filters(node_ptr out) {
    for (;;) {
      if (take_sign("|")) {
        node_ptr filter = make(kind::filter, need_name());
        if (std::find(known_filters.begin(), known_filters.end(), filter->name) == known_filters.end()) {
          fail("the filter \"" + filter->name.substr(0, 40) + "\" is not supported");
        }
        adopt(*filter, std::move(out));
        if (at_sign("(")) arguments(*filter);
        out = std::move(filter);
      } else if (take_name("is")) {
        out = test(std::move(out));
      } else {
        return out;
      }
    }
  }
  node_ptr test(node_ptr subject) {
    const bool negated = take_name("not");
    node_ptr out = make(kind::test, need_name());
    if (std::find(known_tests.begin(), known_tests.end(), out->name) == known_tests.end() &&
        out->name != "None") {
      fail("the test \"" + out->name.substr(0, 40) + "\" is not supported");
    }
    adopt(*out, std::move(subject));
    const token& next = peek();
    if (at_sign("(")) {
      arguments(*out);
    } else if (next.what == token::kind::string || next.what == token::kind::integer || at_sign("[") ||
               (next.what == token::kind::name && next.text != "else" && next.text != "or" &&
                next.text != "and" && next.text != "is" && next.text != "if" && next.text != "not" &&
                next.text != "in")) {
      adopt(*out, postfix(primary()));
    }
    if (!negated) return out;
    node_ptr inverse = make(kind::unary, "not");
    adopt(*inverse, std::move(out));
    return inverse;
  }

  std::vector<token> tokens_;
  std::size_t at_ = 0;
  int level_ = 0;
  int loops_ = 0;
};

}  // namespace

body parse_template(std::string_view source) {
  if (source.size() > max_template_bytes) {
    reject("the template has " + std::to_string(source.size()) + " bytes, the limit is " +
           std::to_string(max_template_bytes));
  }
  return parser(cut_template(source)).run();
}

}  // namespace yolk::model::jinja
