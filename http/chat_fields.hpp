#pragma once

#include <vector>

#include "http/field_reader.hpp"
#include "http/generation_request.hpp"

namespace yolk::http {

/// Reads "messages": at least one turn; content is a string or a list of {"type":"text","text":…} parts.
void read_messages(field_reader& fields, std::vector<chat_turn>& turns);

}  // namespace yolk::http
