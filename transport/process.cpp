#include "transport/process.hpp"

#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace yolk::transport {
namespace {

// UCX's own log goes to standard output, which is not its own. Its warnings concern settings that an engine
// makes for transports which it then may not use; its errors mostly repeat what a transfer's result says.
ucs_log_func_rc_t log_to_standard_error(const char*, unsigned, const char*, ucs_log_level_t level,
                                        const ucs_log_component_config_t*, const char* format,
                                        va_list values) {
  if (level > UCS_LOG_LEVEL_ERROR) return UCS_LOG_FUNC_RC_STOP;
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, values);
  std::fprintf(stderr, "UCX: %s\n", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void prepare_process() {
  ::setenv("UCX_HANDLE_ERRORS", "none", 1);
  ::setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
  if (ucs_log_num_handlers() < 2) ucs_log_push_handler(&log_to_standard_error);
  // UCX's constructor has already run with the values that the process was started with; its signal handlers
  // are undone here. Each of these calls restores the handler that stood before, a sanitizer's for example.
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) ucs_debug_disable_signal(signal);
}

}  // namespace yolk::transport
