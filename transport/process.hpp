#pragma once

namespace yolk::transport {

/// First thing in main, before any thread and any engine. UCX takes over SIGSEGV, SIGBUS, SIGILL and SIGFPE
/// as soon as its library is loaded (it prints a backtrace and waits for a debugger); this gives them back to
/// whoever had them.
///
/// UCX reads UCX_HANDLE_ERRORS and UCX_MEM_MMAP_HOOK_MODE while it is loaded, before main. Both are set to
/// "none" here all the same, for child processes. A process whose mmap must not be patched from the start
/// (ThreadSanitizer's: UCX's patch crashes it) has to be started with UCX_MEM_MMAP_HOOK_MODE=none; to change
/// it later makes mmap call itself.
void prepare_process();

}  // namespace yolk::transport
