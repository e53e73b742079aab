#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yolk::model::jinja {

struct token {
  enum class kind : std::uint8_t {
    text,
    open_block,
    close_block,
    open_output,
    close_output,
    name,
    string,
    integer,
    number,
    sign,
    end
  };
  kind what = kind::end;
  std::string text;
  std::size_t line = 1;
};

/// Cuts a template into tokens, white space around its tags removed as transformers have it removed. Throws
/// fault.
std::vector<token> cut_template(std::string_view source);

}  // namespace yolk::model::jinja
