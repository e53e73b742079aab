#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace yolk::http {

/// One body, taken from the bytes after a head as they arrive: of a known length, chunked, or up to the
/// connection's end. Owned by a parser for one message; one thread. Holds one chunk-size or trailer line at
/// most, besides the body.
class body_reader {
 public:
  enum class state : std::uint8_t { more, done, malformed, too_large };

  static body_reader none() { return body_reader(kind::sized, 0, 0); }
  static body_reader sized(std::size_t length) { return body_reader(kind::sized, length, length); }
  static body_reader chunked(std::size_t max_bytes) { return body_reader(kind::chunk_size, 0, max_bytes); }
  static body_reader until_close() { return body_reader(kind::until_close, 0, 0); }

  /// Takes what belongs to the body from the front of `input` and appends it, decoded, to `body`.
  state read(std::string_view& input, std::string& body);
  /// Bytes held of a line that is not complete.
  [[nodiscard]] std::size_t held_bytes() const { return line_.size(); }
  [[nodiscard]] bool ends_with_connection() const { return kind_ == kind::until_close; }

 private:
  enum class kind : std::uint8_t { sized, chunk_size, chunk_data, chunk_end, trailer, until_close, done };

  body_reader(kind what, std::size_t remaining, std::size_t max_bytes)
      : kind_(what), remaining_(remaining), max_bytes_(max_bytes) {}

  state take_data(std::string_view& input, std::string& body);
  state take_line(std::string_view& input);
  state use_line();
  state begin_chunk();

  kind kind_;
  std::size_t remaining_;  ///< of the body, or of the chunk
  std::size_t max_bytes_;
  std::size_t total_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::string line_;
};

}  // namespace yolk::http
