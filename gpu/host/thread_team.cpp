#include "gpu/host/thread_team.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>

#include "core/invariant.hpp"

namespace yolk::gpu::host {

namespace {

/// Longer than the gap between two kernels of a step, far shorter than a scheduler's time slice.
constexpr auto spin_time = std::chrono::microseconds(50);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Spins until done() or until spin_time has passed; whether done() came true.
template <class Done>
bool spin_until(Done&& done) {
  if (done()) return true;
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 32; ++i) {
      relax();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

constexpr std::uint64_t claims_of(std::uint32_t generation, std::uint32_t next) {
  return std::uint64_t{generation} << 32 | next;
}

}  // namespace

thread_team::thread_team(unsigned thread_count) {
  YOLK_INVARIANT(thread_count >= 1, thread_count);
  threads_.reserve(thread_count - 1);
  for (unsigned thread = 1; thread < thread_count; ++thread) {
    threads_.emplace_back([this, thread] { helper(thread); });
  }
}

thread_team::~thread_team() {
  stopping_.store(true);
  generation_.fetch_add(1);
  futex_wake_all(generation_);
  for (std::thread& thread : threads_) thread.join();
}

std::uint32_t thread_team::run_erased(std::uint32_t first, std::uint32_t count, erased_work work,
                                      erased_stop stop) {
  YOLK_INVARIANT(first <= count && count < UINT32_MAX, first, count);
  if (threads_.empty() || count - first <= 1) {
    std::uint32_t piece = first;
    for (; piece < count && !stop.call(stop.context); ++piece) work.call(work.context, piece, 0);
    return piece;
  }
  const std::uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  // A helper may be about to find that the job before has no pieces left. It must not compare that job's
  // claims with this one's count: so those claims are closed before anything of the description changes.
  // Whoever reads a part of the new description (release here, acquire there) fails in its compare-exchange.
  claims_.store(claims_of(generation - 1, UINT32_MAX), std::memory_order_relaxed);
  call_.store(work.call, std::memory_order_release);
  context_.store(work.context, std::memory_order_release);
  count_.store(count, std::memory_order_release);
  ended_.store(0, std::memory_order_relaxed);
  claims_.store(claims_of(generation, first), std::memory_order_release);
  // Sequentially consistent with the sleepers' count: either a helper sees the new generation before it
  // sleeps, or it is seen here and woken.
  generation_.store(generation, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(generation_);

  std::uint32_t next = count;
  for (;;) {
    if (stop.call(stop.context)) {
      next = close(generation, count);
      break;
    }
    std::uint32_t piece = 0;
    erased_work claimed = work;
    if (!claim(generation, piece, claimed)) break;
    work.call(work.context, piece, 0);
    finish_piece();
  }
  wait_for_pieces(next - first);
  return next;
}

bool thread_team::claim(std::uint32_t generation, std::uint32_t& piece, erased_work& work) {
  std::uint64_t claims = claims_.load(std::memory_order_acquire);
  for (;;) {
    if (static_cast<std::uint32_t>(claims >> 32) != generation) return false;
    piece = static_cast<std::uint32_t>(claims);
    if (piece >= count_.load(std::memory_order_acquire)) return false;
    work = {call_.load(std::memory_order_acquire), context_.load(std::memory_order_acquire)};
    if (claims_.compare_exchange_weak(claims, claims + 1, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      return true;
    }
  }
}

/// Lets no further piece of the job begin; the first piece that was not begun.
std::uint32_t thread_team::close(std::uint32_t generation, std::uint32_t count) {
  std::uint64_t claims = claims_.load(std::memory_order_acquire);
  while (!claims_.compare_exchange_weak(claims, claims_of(generation, UINT32_MAX), std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
  }
  const auto next = static_cast<std::uint32_t>(claims);
  return next < count ? next : count;
}

void thread_team::finish_piece() {
  ended_.fetch_add(1, std::memory_order_seq_cst);
  if (caller_sleeps_.load(std::memory_order_seq_cst) != 0) futex_wake_all(ended_);
}

void thread_team::wait_for_pieces(std::uint32_t begun) {
  const auto all_ended = [&] { return ended_.load(std::memory_order_acquire) == begun; };
  if (spin_until(all_ended)) return;
  caller_sleeps_.store(1, std::memory_order_seq_cst);
  for (std::uint32_t ended = ended_.load(std::memory_order_seq_cst); ended != begun;
       ended = ended_.load(std::memory_order_seq_cst)) {
    futex_wait(ended_, ended);
  }
  caller_sleeps_.store(0, std::memory_order_relaxed);
}

void thread_team::helper(unsigned thread) {
  std::uint32_t seen = 0;
  for (;;) {
    seen = wait_for_job(seen);
    if (stopping_.load()) return;
    std::uint32_t piece = 0;
    erased_work work = {nullptr, nullptr};
    while (claim(seen, piece, work)) {
      work.call(work.context, piece, thread);
      finish_piece();
    }
  }
}

std::uint32_t thread_team::wait_for_job(std::uint32_t seen) {
  if (spin_until([&] { return generation_.load(std::memory_order_acquire) != seen; }))
    return generation_.load();
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (generation_.load(std::memory_order_seq_cst) == seen) futex_wait(generation_, seen);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return generation_.load();
}

}  // namespace yolk::gpu::host
