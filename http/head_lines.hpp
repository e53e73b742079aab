#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yolk::http {

using header_list = std::vector<std::pair<std::string, std::string>>;

/// What requests and responses share of HTTP/1.1's grammar (RFC 9110, RFC 9112). Pure functions over one
/// line.
bool is_token(std::string_view text);
bool equal_ignoring_case(std::string_view left, std::string_view right);
std::string_view trim_blanks(std::string_view text);  ///< spaces and tabs at both ends

/// "Name: value" without its line end; nothing when it is malformed (a blank before the colon, a folded line,
/// a control character in the value).
std::optional<std::pair<std::string, std::string>> read_header_line(std::string_view line);
/// First header of that name; empty when absent.
std::string_view find_header(const header_list& headers, std::string_view name);
std::size_t count_headers(const header_list& headers, std::string_view name);
/// Whether a comma-separated list header, over all its lines, has this member ("Connection: keep-alive,
/// close").
bool list_has(const header_list& headers, std::string_view name, std::string_view member);

/// A decimal count: digits only. Absent when it is malformed; what does not fit is the largest value.
std::optional<std::size_t> read_decimal(std::string_view text);

/// "%41" becomes "A"; absent when an escape is broken or gives a NUL. `plus_is_space` is the query's rule.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

}  // namespace yolk::http
