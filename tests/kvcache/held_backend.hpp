#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kvcache/io_backend.hpp"

namespace yolk::tests {

/// A backend that moves nothing: the test says when a request is done, and how.
class held_backend final : public kvcache::io_backend {
 public:
  void start(const kvcache::io_request& request, done on_done) override {
    const std::lock_guard lock(mutex_);
    held_.emplace_back(request, std::move(on_done));
  }
  [[nodiscard]] const char* name() const override { return "held"; }

  /// Offsets, in the order in which they were started.
  [[nodiscard]] std::vector<std::uint64_t> in_flight() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> offsets;
    for (const auto& each : held_) offsets.push_back(each.first.offset);
    return offsets;
  }
  [[nodiscard]] std::size_t bytes_of(std::uint64_t offset) const {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(held_.begin(), held_.end(),
                                 [&](const auto& each) { return each.first.offset == offset; });
    return at == held_.end() ? 0 : at->first.byte_count();
  }
  void complete(std::uint64_t offset, std::int64_t moved) {
    done on_done;
    {
      const std::lock_guard lock(mutex_);
      const auto at = std::find_if(held_.begin(), held_.end(),
                                   [&](const auto& each) { return each.first.offset == offset; });
      if (at == held_.end()) return;
      on_done = std::move(at->second);
      held_.erase(at);
    }
    on_done(moved);
  }
  /// Until none is left, oldest first, each whole.
  void complete_all() {
    for (auto offsets = in_flight(); !offsets.empty(); offsets = in_flight())
      complete(offsets.front(), static_cast<std::int64_t>(bytes_of(offsets.front())));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<kvcache::io_request, done>> held_;
};

/// `seen` stays valid while the backend lives.
inline std::unique_ptr<kvcache::io_backend> make_held_backend(held_backend*& seen) {
  auto made = std::make_unique<held_backend>();
  seen = made.get();
  return made;
}

/// Does what `kind` does, but for requests that the test's function answers instead: a result, or nothing.
class faulty_backend final : public kvcache::io_backend {
 public:
  using fault = std::function<std::optional<std::int64_t>(const kvcache::io_request&)>;
  faulty_backend(std::unique_ptr<kvcache::io_backend> real, fault decide)
      : decide_(std::move(decide)), real_(std::move(real)) {}
  void start(const kvcache::io_request& request, done on_done) override {
    const auto answer = decide_(request);
    if (!answer) return real_->start(request, std::move(on_done));
    // Through the real backend, so that it is answered on its thread: what it does moves nothing.
    auto nothing = request;
    nothing.file = -1;
    real_->start(nothing, [then = std::move(on_done), answer](std::int64_t) { then(*answer); });
  }
  [[nodiscard]] const char* name() const override { return "faulty"; }

 private:
  fault decide_;
  std::unique_ptr<kvcache::io_backend> real_;
};

}  // namespace yolk::tests
