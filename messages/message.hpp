#pragma once

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/make_counted.hpp>
#include <caf/type_nr.hpp>
#include <string>
#include <utility>

#include "core/invariant.hpp"
#include "messages/segments.hpp"

namespace yolk::messages {

/// What actors say to each other: a Cap'n Proto message of one schema, built once, then immutable and shared.
/// A local send passes a pointer; a remote send writes the words once. Copying is cheap. Thread-safe to
/// share; each reader makes its own view.
template <class Schema>
class message {
 public:
  using reader = typename Schema::Reader;
  using builder = typename Schema::Builder;

  /// Keeps the words alive and carries its own traversal budget, so it belongs to one thread. Reading content
  /// that a peer garbled throws kj::Exception: a handler that reads remote messages ends with the actor, not
  /// the process.
  class view {
   public:
    explicit view(segments_ptr words)
        : words_(observed(std::move(words))),
          message_(words_->get(), reader_options(words_->byte_count())),
          root_(message_.template getRoot<Schema>()) {}
    ~view() { words_->release_to_others(); }
    view(const view&) = delete;
    view& operator=(const view&) = delete;
    const reader* operator->() const { return &root_; }
    reader operator*() const { return root_; }

   private:
    static segments_ptr observed(segments_ptr words) {
      words->acquire_from_others();
      return words;
    }

    segments_ptr words_;
    capnp::SegmentArrayMessageReader message_;
    reader root_;
  };

  message() = default;

  /// fill(builder) writes the fields. first_words: the expected size, so that most messages are one segment.
  template <class Fill>
  static message build(Fill&& fill, unsigned first_words = 128) {
    auto words = kj::heap<capnp::MallocMessageBuilder>(first_words);
    fill(words->template initRoot<Schema>());
    return message(caf::make_counted<segments>(kj::mv(words)));
  }

  [[nodiscard]] view read() const {
    YOLK_INVARIANT(words_ != nullptr);
    return view(words_);
  }
  explicit operator bool() const { return words_ != nullptr; }
  [[nodiscard]] std::size_t byte_count() const {
    if (!words_) return 0;
    words_->acquire_from_others();
    const std::size_t bytes = words_->byte_count();
    words_->release_to_others();
    return bytes;
  }
  /// Equal for copies of one message.
  [[nodiscard]] const void* identity() const { return words_.get(); }

  friend caf::error inspect(caf::serializer& sink, message& self) {
    return write_segments(sink, self.words_);
  }
  friend caf::error inspect(caf::deserializer& source, message& self) {
    return read_segments(source, self.words_);
  }
  friend std::string to_string(const message& self) {
    return "message(" + std::to_string(self.byte_count()) + " bytes)";
  }

 private:
  explicit message(segments_ptr words) : words_(std::move(words)) {}

  segments_ptr words_;
};

}  // namespace yolk::messages
