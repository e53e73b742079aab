// The main of every test program that uses UCX (yolk_test's MAIN): the process must be prepared before
// anything else.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "transport/process.hpp"

int main(int argc, char** argv) {
  yolk::transport::prepare_process();
  return doctest::Context(argc, argv).run();
}
