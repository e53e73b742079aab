#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace yolk::cli {

/// What one event of a chat stream, or an error's body, says.
struct chat_event {
  bool is_json = true;
  std::string content;        ///< of the first choice
  std::string finish_reason;  ///< of the first choice
  std::string error;          ///< error.message
  bool has_usage = false;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;
  std::uint64_t cached_tokens = 0;
};

/// Reads the JSON of an event. What says nothing of this gives an empty event.
chat_event read_chat_event(std::string_view json);

}  // namespace yolk::cli
