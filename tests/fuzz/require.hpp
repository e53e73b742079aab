#pragma once

#include <cstdio>
#include <cstdlib>

/// What a fuzzer holds the code to: a violation ends the program, which libFuzzer reports with the input.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}
