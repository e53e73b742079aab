#include "kvcache/io_queue.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <future>

#include "tests/kvcache/held_backend.hpp"
#include "tests/kvcache/ssd_fixture.hpp"

using namespace yolk;
using namespace yolk::kvcache;
using namespace yolk::tests;

namespace {

io_request request_of(io_request::kind what, std::uint64_t offset, std::span<std::byte> bytes) {
  return {.what = what, .file = 0, .offset = offset, .buffers = {bytes, std::span<std::byte>()}};
}

int wait_for(io_queue& queue, const io_request& request) {
  std::promise<int> ended;
  queue.submit(request, [&](int error) { ended.set_value(error); });
  return ended.get_future().get();
}

}  // namespace

TEST_CASE("reads overtake queued writes, and few writes are in flight") {
  held_backend* held = nullptr;
  io_queue queue(make_held_backend(held), {.reads_in_flight = 2, .writes_in_flight = 1});
  std::vector<std::byte> bytes(64);
  std::vector<int> order;
  for (int i = 0; i < 5; ++i)
    queue.submit(request_of(io_request::kind::write, 100 + i, bytes),
                 [&, i](int) { order.push_back(100 + i); });
  CHECK(held->in_flight() == std::vector<std::uint64_t>{100});
  for (int i = 0; i < 3; ++i)
    queue.submit(request_of(io_request::kind::read, i, bytes), [&, i](int) { order.push_back(i); });
  CHECK(held->in_flight() == std::vector<std::uint64_t>{100, 0, 1});
  held->complete(100, 64);  // no other write takes its place: a read waits
  CHECK(held->in_flight() == std::vector<std::uint64_t>{0, 1});
  held->complete(0, 64);
  CHECK(held->in_flight() == std::vector<std::uint64_t>{1, 2, 101});
  held->complete_all();
  CHECK(order == std::vector<int>{100, 0, 1, 2, 101, 102, 103, 104});
}

TEST_CASE("a large write goes in pieces, and a read comes between them") {
  held_backend* held = nullptr;
  io_queue queue(make_held_backend(held),
                 {.reads_in_flight = 1, .writes_in_flight = 1, .write_piece_bytes = 100});
  std::vector<std::byte> head(30);
  std::vector<std::byte> body(200);
  int written = -1;
  queue.submit({.what = io_request::kind::write, .file = 0, .offset = 1000, .buffers = {head, body}},
               [&](int error) { written = error; });
  CHECK(held->bytes_of(1000) == 100);
  int read = -1;
  queue.submit(request_of(io_request::kind::read, 5, head), [&](int error) { read = error; });
  queue.submit(request_of(io_request::kind::read, 6, head), [](int) {});
  held->complete(1000, 100);
  CHECK(held->in_flight() == std::vector<std::uint64_t>{5});
  held->complete(5, 30);
  held->complete(6, 30);
  CHECK(read == 0);
  held->complete(1100, 60);  // fewer than asked
  CHECK(held->bytes_of(1160) == 70);
  CHECK(written == -1);
  held->complete(1160, 70);
  CHECK(written == 0);
}

TEST_CASE("a request's end says what went wrong") {
  held_backend* held = nullptr;
  io_queue queue(make_held_backend(held));
  std::vector<std::byte> bytes(64);
  std::vector<int> errors;
  const auto note = [&](int error) { errors.push_back(error); };
  for (std::uint64_t i = 0; i < 3; ++i)
    queue.submit(request_of(io_request::kind::read, i * 100, bytes), note);
  held->complete(0, -EIO);
  held->complete(100, 0);  // the file ends here
  held->complete(200, -EINTR);
  CHECK(held->in_flight() == std::vector<std::uint64_t>{200});
  held->complete(200, 10);
  held->complete(210, 54);
  CHECK(errors == std::vector<int>{EIO, ENODATA, 0});
}

TEST_CASE("stopping ends what is queued and waits for what is in flight") {
  held_backend* held = nullptr;
  std::vector<std::byte> bytes(64);
  std::vector<int> errors;
  std::promise<void> dropped;
  io_queue queue(make_held_backend(held), {.reads_in_flight = 1, .writes_in_flight = 1});
  queue.submit(request_of(io_request::kind::read, 1, bytes), [&](int error) { errors.push_back(error); });
  queue.submit(request_of(io_request::kind::read, 2, bytes), [&](int error) {
    errors.push_back(error);
    dropped.set_value();
  });
  auto stopped = std::async(std::launch::async, [&] { queue.stop(); });
  dropped.get_future().get();
  CHECK(errors == std::vector<int>{ECANCELED});
  held->complete(1, 64);
  stopped.get();
  CHECK(errors == std::vector<int>{ECANCELED, 0});
  queue.submit(request_of(io_request::kind::read, 3, bytes), [&](int error) { errors.push_back(error); });
  CHECK(errors.back() == ECANCELED);
}

TEST_CASE("each backend moves the bytes of a real file") {
  for (const auto kind : {io_kind::uring, io_kind::threads}) {
    io_queue queue(make_backend(kind), {.write_piece_bytes = 1000});
    CAPTURE(queue.backend_name());
    const temporary_folder folder;
    const int file = open((folder.path() / "f").c_str(), O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0);
    std::vector<std::byte> head(700, std::byte{1});
    std::vector<std::byte> body(5000, std::byte{2});
    CHECK(wait_for(queue,
                   {.what = io_request::kind::write, .file = file, .offset = 10, .buffers = {head, body}}) ==
          0);
    std::vector<std::byte> back(5700);
    const auto both = std::span(back);
    CHECK(wait_for(queue, {.what = io_request::kind::read,
                           .file = file,
                           .offset = 10,
                           .buffers = {both.first(100), both.subspan(100)}}) == 0);
    CHECK(std::equal(head.begin(), head.end(), back.begin()));
    CHECK(std::equal(body.begin(), body.end(), back.begin() + 700));
    CHECK(wait_for(queue,
                   {.what = io_request::kind::read, .file = file, .offset = 11, .buffers = {both, {}}}) ==
          ENODATA);
    CHECK(wait_for(queue, {.what = io_request::kind::read, .file = -1, .offset = 0, .buffers = {both, {}}}) ==
          EBADF);
    close(file);
  }
}

TEST_CASE("a backend takes more requests than it has room for in flight") {
  for (const auto kind : {io_kind::uring, io_kind::threads}) {
    const temporary_folder folder;
    const int file = open((folder.path() / "f").c_str(), O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0);
    std::vector<std::uint64_t> numbers(1000);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    {
      auto backend = make_backend(kind);
      CAPTURE(backend->name());
      for (auto& number : numbers)
        backend->start({.what = io_request::kind::write,
                        .file = file,
                        .offset = number * 8,
                        .buffers = {std::as_writable_bytes(std::span(&number, 1)), {}}},
                       [](std::int64_t moved) { CHECK(moved == 8); });
    }  // waits
    std::vector<std::uint64_t> back(numbers.size());
    CHECK(pread(file, back.data(), back.size() * 8, 0) == static_cast<ssize_t>(back.size() * 8));
    CHECK(back == numbers);
    close(file);
  }
}
