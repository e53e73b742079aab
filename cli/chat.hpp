#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace yolk::cli {

struct chat_options {
  std::string url = "http://127.0.0.1:8000";  ///< http://host[:port][/path before /v1]
  std::string model;                          ///< empty = the server's only one
  std::string system;                         ///< the system message; empty = none
  std::string api_key;
  std::string api_key_file;           ///< holds the key as its first word, in place of api_key
  std::uint32_t max_tokens = 0;       ///< 0 = what the server gives
  std::optional<double> temperature;  ///< absent = the server's default
  bool stats = false;                 ///< after each answer: tokens, speed, cached tokens
};

/// `yolk chat`: a conversation in the terminal. Lines starting with / are commands (/help lists them). From a
/// pipe, each line is a prompt of the same conversation. Returns the process's exit status: 1 when a prompt
/// failed or an answer could not be written.
int run_chat(const chat_options& given);

struct chat_streams {
  std::istream& in;
  std::ostream& out;    ///< answers
  std::ostream& notes;  ///< prompts, statistics, errors
  bool interactive = false;
  bool out_is_terminal = false;  ///< what the model writes is not to steer it
};
/// The same over any streams.
int run_chat(const chat_options& options, chat_streams streams);

}  // namespace yolk::cli
