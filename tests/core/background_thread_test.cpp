#include "core/background_thread.hpp"

#include <doctest/doctest.h>

#include <future>
#include <thread>
#include <vector>

using namespace yolk;

TEST_CASE("jobs run in order on the thread, away from the caller") {
  std::vector<int> order;
  std::promise<std::thread::id> where;
  core::background_thread thread("jobs");
  for (int i = 0; i < 3; ++i) CHECK(thread.post([&order, i] { order.push_back(i); }));
  CHECK(thread.post([&] { where.set_value(std::this_thread::get_id()); }));
  CHECK(where.get_future().get() != std::this_thread::get_id());
  CHECK(order == std::vector<int>{0, 1, 2});
}

TEST_CASE("a job at once has run when post returns, on the caller's thread") {
  core::background_thread thread("jobs", core::job_place::at_once);
  std::thread::id where;
  CHECK(thread.post([&] { where = std::this_thread::get_id(); }));
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE("after stop no job is taken, wherever jobs run") {
  for (const auto place : {core::job_place::own_thread, core::job_place::at_once}) {
    core::background_thread thread("jobs", place);
    thread.stop();
    bool ran = false;
    CHECK_FALSE(thread.post([&] { ran = true; }));
    thread.stop();
    CHECK_FALSE(ran);
  }
}
