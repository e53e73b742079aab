#include "scheduling/priority_groups.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace yolk::scheduling;

TEST_CASE("a request stands in the group of its hit ratio") {
  CHECK(priority_group(0.0) == 0);
  CHECK(priority_group(0.1) == 0);
  CHECK(priority_group(0.11) == 1);
  CHECK(priority_group(0.95) == 9);
  CHECK(priority_group(1.0) == 9);
  CHECK(priority_group(7.0) == 9);
}

TEST_CASE("the best cached go first, in order of arrival, and nothing is lost") {
  priority_groups groups;
  CHECK_FALSE(groups.pop());
  groups.push(1, 0.0);
  groups.push(2, 1.0);
  groups.push(3, 0.5);
  groups.push(4, 1.0);
  CHECK(groups.size() == 4);
  std::vector<std::uint64_t> order;
  while (const auto next = groups.pop()) order.push_back(*next);
  CHECK(order == std::vector<std::uint64_t>{2, 4, 3, 1});
  CHECK(groups.size() == 0);
}

TEST_CASE("a request without a hit is reached in every round, however many well cached ones come") {
  priority_groups groups;
  std::uint64_t next = 1000;
  for (int i = 0; i < 1000; ++i) groups.push(next++, 1.0);
  for (std::uint64_t cold = 0; cold < 20; ++cold) groups.push(cold, 0.0);
  int before_first = 0;
  while (*groups.pop() >= 1000) {
    groups.push(next++, 1.0);
    ++before_first;
  }
  CHECK(before_first == 100);
  // Ten of the coldest group, then the best cached again.
  for (int i = 1; i < 10; ++i) CHECK(*groups.pop() < 1000);
  CHECK(*groups.pop() >= 1000);
}

TEST_CASE("a full quota of the only group does not leave the worker idle") {
  priority_groups groups;
  for (std::uint64_t i = 0; i < 500; ++i) groups.push(i, 0.05);
  for (std::uint64_t i = 0; i < 500; ++i) CHECK(groups.pop() == i);
}
