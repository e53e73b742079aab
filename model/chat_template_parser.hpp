#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/chat_template_value.hpp"

namespace yolk::model::jinja {

using node_ptr = std::unique_ptr<node>;
using body = std::vector<node_ptr>;

/// One part of a parsed template, statement or expression.
struct node {
  enum class kind : std::uint8_t {
    // Statements. `items` and `bodies` as said.
    text,       ///< literal
    output,     ///< items[0]
    branch,     ///< items: conditions; bodies: one each, and one more for else
    loop,       ///< names: targets; items: iterable, condition or null; bodies: body, else
    set,        ///< items: target, value
    set_block,  ///< items: target; bodies[0]
    macro,      ///< name; named: parameters with defaults or null; bodies[0]
    leave,      ///< break
    next,       ///< continue
    group,      ///< bodies[0], as it is
    // Expressions.
    literal,
    variable,     ///< name
    attribute,    ///< items[0] . name
    subscript,    ///< items[0] [ items[1] ]
    slice,        ///< items[0] [ items[1] : items[2] : items[3] ], each may be null
    call,         ///< items[0] ( items[1..], named )
    filter,       ///< items[0] | name ( items[1..], named )
    test,         ///< items[0] is name ( items[1..] )
    unary,        ///< name: not, -, +
    binary,       ///< name: the operator
    conditional,  ///< items: value, condition, other or null
    list,         ///< items
    object,       ///< items: key, value, key, value …
  };
  kind what = kind::text;
  int depth = 1;  ///< of the tree below; bounded, so that recursion over it is
  std::string name;
  value literal;
  std::vector<std::string> names;
  std::vector<node_ptr> items;
  std::vector<std::pair<std::string, node_ptr>> named;
  std::vector<body> bodies;
};

/// Parses a template as Hugging Face's transformers do (Jinja 2 with trim_blocks and lstrip_blocks). Throws
/// fault.
body parse_template(std::string_view source);

}  // namespace yolk::model::jinja
