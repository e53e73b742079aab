// A transfer engine in a process of its own, for the tests of peers that die: prints its descriptor as one
// line and serves until its standard input ends.
//   transport_peer <region bytes> <incarnation> <transports> <byte that fills the region>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/transport/descriptor_text.hpp"
#include "transport/process.hpp"
#include "transport/transfer_engine.hpp"

int main(int argc, char** argv) {
  // Even while stopped it must not outlive the test.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  yolk::transport::prepare_process();
  if (argc != 5) return 2;
  yolk::transport::engine_options options;
  options.region_bytes = std::strtoull(argv[1], nullptr, 10);
  options.owner.value = std::strtoull(argv[2], nullptr, 10);
  options.transports = argv[3];
  const auto engine = yolk::transport::transfer_engine::start(options);
  if (!engine) {
    std::fprintf(stderr, "%s\n", engine.error().message.c_str());
    return 1;
  }
  std::ranges::fill((*engine)->region(), static_cast<std::byte>(std::strtoul(argv[4], nullptr, 10)));
  // The engine's thread takes the lock that this takes, which tells ThreadSanitizer that the fill came first.
  static_cast<void>((*engine)->counters());
  std::printf("%s\n", yolk::transport::testing::to_text((*engine)->descriptor()).c_str());
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
