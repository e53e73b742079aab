#pragma once

#include <capnp/message.h>

#include <caf/error.hpp>
#include <caf/intrusive_ptr.hpp>
#include <caf/ref_counted.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/result.hpp"

namespace yolk::messages {

enum class errc { malformed, too_large };
template <class T>
using result = core::result<T, errc>;

/// Control messages are small (KV bytes never travel in one); the largest legitimate one holds a prompt's
/// tokens.
inline constexpr std::size_t max_message_bytes = std::size_t{32} << 20;

/// The words of one built message: immutable, shared by reference count between all local holders.
class segments final : public caf::ref_counted {
 public:
  using table = kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>;

  explicit segments(kj::Own<capnp::MallocMessageBuilder> builder);
  /// Takes bytes from the network; refuses what is no well-formed segment table.
  static result<caf::intrusive_ptr<const segments>> adopt(kj::Array<capnp::word> flat);
  ~segments() noexcept override;

  [[nodiscard]] table get() const { return segments_; }
  [[nodiscard]] std::size_t byte_count() const;
  /// The standard framing, ready for the wire: (number of segments - 1, their lengths, padding), then the
  /// words.
  [[nodiscard]] std::vector<std::uint32_t> framing() const;

  /// A message orders memory: who reads it sees what its builder did before, who frees it what its readers
  /// did. CAF sees to that, by locks and atomics that ThreadSanitizer does not see: it is told by these two,
  /// which do nothing elsewhere.
  void release_to_others() const noexcept;
  void acquire_from_others() const noexcept;

 private:
  explicit segments(kj::Array<capnp::word> flat) : flat_(kj::mv(flat)) {}

  kj::Own<capnp::MallocMessageBuilder> builder_;
  kj::Array<capnp::word> flat_;
  kj::Array<kj::ArrayPtr<const capnp::word>> segments_;
};

using segments_ptr = caf::intrusive_ptr<const segments>;

/// Limits for reading a message of that size: generous for honest readers, an end for lying pointers.
capnp::ReaderOptions reader_options(std::size_t bytes);

caf::error write_segments(caf::serializer& sink, const segments_ptr& words);
caf::error read_segments(caf::deserializer& source, segments_ptr& words);

}  // namespace yolk::messages
