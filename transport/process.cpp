#include "transport/process.hpp"

#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

#include <csignal>
#include <cstdlib>
#include <initializer_list>

namespace yolk::transport {

void prepare_process() {
  ::setenv("UCX_HANDLE_ERRORS", "none", 1);
  ::setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
  // UCX's constructor has already run with the values that the process was started with; its signal handlers
  // are undone here. Each of these calls restores the handler that stood before, a sanitizer's for example.
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ucs_debug_disable_signal(signal);
  // Its warnings concern settings that an engine makes for transports which it then may not use.
  ucs_global_opts_set_value("LOG_LEVEL", "error");
}

}  // namespace yolk::transport
