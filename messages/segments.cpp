#include "messages/segments.hpp"

#include <capnp/serialize.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <caf/binary_deserializer.hpp>
#include <caf/deserializer.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>
#include <string>

namespace yolk::messages {

segments::segments(kj::Own<capnp::MallocMessageBuilder> builder) : builder_(kj::mv(builder)) {
  segments_ = kj::heapArray<kj::ArrayPtr<const capnp::word>>(builder_->getSegmentsForOutput());
  release_to_others();
}

segments::~segments() noexcept {
  acquire_from_others();
}

#ifdef __SANITIZE_THREAD__
void segments::release_to_others() const noexcept {
  __tsan_release(const_cast<segments*>(this));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}
void segments::acquire_from_others() const noexcept {
  __tsan_acquire(const_cast<segments*>(this));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}
#else
void segments::release_to_others() const noexcept {}
void segments::acquire_from_others() const noexcept {}
#endif

result<segments_ptr> segments::adopt(kj::Array<capnp::word> flat) {
  const std::size_t bytes = flat.size() * sizeof(capnp::word);
  if (bytes > max_message_bytes)
    return core::failure<errc>{errc::too_large, "message: " + std::to_string(bytes) + " bytes, limit " +
                                                    std::to_string(max_message_bytes)};
  auto adopted = caf::intrusive_ptr<segments>(new segments(kj::mv(flat)), false);
  try {
    capnp::FlatArrayMessageReader probe(adopted->flat_.asPtr(), reader_options(bytes));
    kj::Vector<kj::ArrayPtr<const capnp::word>> found;
    for (unsigned id = 0;; ++id) {
      auto segment = probe.getSegment(id);
      if (segment == nullptr) break;
      found.add(segment);
    }
    adopted->segments_ = found.releaseAsArray();
    adopted->release_to_others();
  } catch (const kj::Exception& problem) {
    return core::failure<errc>{errc::malformed, std::string("message: ") + problem.getDescription().cStr()};
  }
  return segments_ptr(std::move(adopted));
}

std::size_t segments::byte_count() const {
  std::size_t words = 0;
  for (const auto& segment : segments_) words += segment.size();
  return words * sizeof(capnp::word);
}

std::vector<std::uint32_t> segments::framing() const {
  std::vector<std::uint32_t> table((segments_.size() / 2 + 1) * 2, 0);
  table[0] = static_cast<std::uint32_t>(segments_.size() - 1);
  for (std::size_t i = 0; i < segments_.size(); ++i)
    table[i + 1] = static_cast<std::uint32_t>(segments_[i].size());
  return table;
}

capnp::ReaderOptions reader_options(std::size_t bytes) {
  capnp::ReaderOptions options;
  // Every access to a list consumes its length again, so an honest reader may walk a message several times.
  options.traversalLimitInWords = 64 * (bytes / sizeof(capnp::word)) + 4096;
  options.nestingLimit = 16;
  return options;
}

caf::error write_segments(caf::serializer& sink, const segments_ptr& words) {
  std::size_t bytes = 0;
  if (!words)
    return caf::error::eval([&] { return sink.begin_sequence(bytes); }, [&] { return sink.end_sequence(); });
  words->acquire_from_others();
  auto table = words->framing();
  bytes = table.size() * sizeof(std::uint32_t) + words->byte_count();
  if (bytes > max_message_bytes) return caf::make_error(caf::sec::invalid_argument, "message too large");
  if (auto failed = sink.begin_sequence(bytes)) return failed;
  if (auto failed = sink.apply_raw(table.size() * sizeof(std::uint32_t), table.data())) return failed;
  for (const auto& segment : words->get())
    if (auto failed =
            sink.apply_raw(segment.size() * sizeof(capnp::word), const_cast<capnp::word*>(segment.begin())))
      return failed;
  words->release_to_others();
  return sink.end_sequence();
}

caf::error read_segments(caf::deserializer& source, segments_ptr& words) {
  std::size_t bytes = 0;
  if (auto failed = source.begin_sequence(bytes)) return failed;
  words.reset();
  if (bytes != 0) {
    // Checked against what has really arrived before anything is allocated: the length is the peer's word.
    auto* binary = dynamic_cast<caf::binary_deserializer*>(&source);
    if (bytes % sizeof(capnp::word) != 0 || bytes > max_message_bytes ||
        (binary && bytes > binary->remaining()))
      return caf::sec::invalid_argument;
    auto flat = kj::heapArray<capnp::word>(bytes / sizeof(capnp::word));
    if (auto failed = source.apply_raw(bytes, flat.begin())) return failed;
    auto adopted = segments::adopt(kj::mv(flat));
    if (!adopted) return caf::make_error(caf::sec::invalid_argument, adopted.error().message);
    words = std::move(adopted).value();
  }
  return source.end_sequence();
}

}  // namespace yolk::messages
