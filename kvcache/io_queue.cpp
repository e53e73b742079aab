#include "kvcache/io_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/invariant.hpp"

namespace yolk::kvcache {

namespace {

void advance(io_request& rest, std::size_t moved) {
  rest.offset += moved;
  for (auto& buffer : rest.buffers) {
    const std::size_t part = std::min(moved, buffer.size());
    buffer = buffer.subspan(part);
    moved -= part;
  }
}

io_request first_piece(const io_request& rest, std::size_t piece_bytes) {
  io_request piece = rest;
  for (auto& buffer : piece.buffers) {
    buffer = buffer.first(std::min(buffer.size(), piece_bytes));
    piece_bytes -= buffer.size();
  }
  return piece;
}

}  // namespace

io_queue::io_queue(std::unique_ptr<io_backend> backend, io_queue_limits limits)
    : limits_(limits), backend_(std::move(backend)) {
  YOLK_INVARIANT(limits.reads_in_flight > 0 && limits.writes_in_flight > 0 && limits.write_piece_bytes > 0,
                 limits.reads_in_flight, limits.writes_in_flight, limits.write_piece_bytes);
}

io_queue::~io_queue() {
  stop();
}

void io_queue::submit(const io_request& request, done on_done) {
  YOLK_INVARIANT(request.byte_count() > 0, request.offset);
  auto added = std::make_shared<operation>(operation{request, std::move(on_done)});
  std::vector<operation_ptr> startable;
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    refused = stopping_;
    if (!refused) {
      (request.what == io_request::kind::read ? reads_ : writes_).push_back(added);
      startable = take_startable();
    }
  }
  if (refused) return added->on_done(ECANCELED);
  for (const auto& next : startable) start(next);
}

std::vector<io_queue::operation_ptr> io_queue::take_startable() {
  std::vector<operation_ptr> startable;
  for (; !reads_.empty() && reads_in_flight_ < limits_.reads_in_flight; ++reads_in_flight_) {
    startable.push_back(std::move(reads_.front()));
    reads_.pop_front();
  }
  for (; reads_.empty() && !writes_.empty() && writes_in_flight_ < limits_.writes_in_flight;
       ++writes_in_flight_) {
    startable.push_back(std::move(writes_.front()));
    writes_.pop_front();
  }
  return startable;
}

void io_queue::start(const operation_ptr& next) {
  const bool is_read = next->rest.what == io_request::kind::read;
  backend_->start(is_read ? next->rest : first_piece(next->rest, limits_.write_piece_bytes),
                  [this, next](std::int64_t moved) { complete(next, moved); });
}

void io_queue::complete(const operation_ptr& ended, std::int64_t moved) {
  const bool is_read = ended->rest.what == io_request::kind::read;
  const bool again = moved == -EINTR || moved == -EAGAIN;
  int error = 0;
  if (moved < 0 && !again) error = static_cast<int>(-moved);
  if (moved == 0) error = is_read ? ENODATA : EIO;
  if (moved > 0) advance(ended->rest, static_cast<std::size_t>(moved));
  bool whole = error != 0 || ended->rest.byte_count() == 0;

  std::vector<operation_ptr> startable;
  {
    const std::lock_guard lock(mutex_);
    --(is_read ? reads_in_flight_ : writes_in_flight_);
    if (!whole && stopping_) {
      error = ECANCELED;
      whole = true;
    }
    // The rest of a write queues up behind the reads that came meanwhile.
    if (!whole) (is_read ? reads_ : writes_).push_front(ended);
    if (!stopping_) startable = take_startable();
    if (whole) ++completing_;
  }
  for (const auto& next : startable) start(next);
  if (!whole) return;
  ended->on_done(error);
  const std::lock_guard lock(mutex_);
  --completing_;
  idle_.notify_all();
}

void io_queue::stop() {
  std::deque<operation_ptr> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    std::swap(dropped, reads_);
    std::ranges::move(writes_, std::back_inserter(dropped));
    writes_.clear();
  }
  for (const auto& each : dropped) each->on_done(ECANCELED);
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return reads_in_flight_ + writes_in_flight_ + completing_ == 0; });
}

}  // namespace yolk::kvcache
