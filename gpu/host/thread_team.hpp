#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace yolk::gpu::host {

/// Fork and join over numbered pieces of work. The caller of run() is one of the team; the others wait for
/// the next call, spinning for a bounded time and then asleep, so an idle team costs nothing and a neighbour
/// who needs the core gets it. Pieces are claimed one by one: a thread that is late or preempted delays only
/// the piece it holds, and the caller would do all of them alone. Owned by the platform. run() is for one
/// caller at a time (whoever has the turn, see host_turnstile).
class thread_team {
 public:
  /// thread_count includes the caller; at least 1.
  explicit thread_team(unsigned thread_count);
  ~thread_team();
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  [[nodiscard]] unsigned thread_count() const { return static_cast<unsigned>(threads_.size()) + 1; }

  /// Calls work(piece, thread) for every piece in [first, count), thread < thread_count() being a number that
  /// no two calls running at a time share. `stop` is asked by the caller before each piece that it takes:
  /// once it says yes, no further piece begins. Returns when all pieces begun have ended, with the first
  /// piece that was not begun (count if none was left out).
  template <class Work, class Stop>
  std::uint32_t run(std::uint32_t first, std::uint32_t count, Work&& work, Stop&& stop) {
    const erased_work erased_w = {[](void* context, std::uint32_t piece, unsigned thread) {
                                    (*static_cast<std::remove_reference_t<Work>*>(context))(piece, thread);
                                  },
                                  const_cast<void*>(static_cast<const void*>(&work))};
    const erased_stop erased_s = {
        [](void* context) {
          return static_cast<bool>((*static_cast<std::remove_reference_t<Stop>*>(context))());
        },
        const_cast<void*>(static_cast<const void*>(&stop))};
    return run_erased(first, count, erased_w, erased_s);
  }

 private:
  struct erased_work {
    void (*call)(void* context, std::uint32_t piece, unsigned thread);
    void* context;
  };
  struct erased_stop {
    bool (*call)(void* context);
    void* context;
  };

  std::uint32_t run_erased(std::uint32_t first, std::uint32_t count, erased_work work, erased_stop stop);
  bool claim(std::uint32_t generation, std::uint32_t& piece, erased_work& work);
  void finish_piece();
  std::uint32_t close(std::uint32_t generation, std::uint32_t count);
  void wait_for_pieces(std::uint32_t begun);
  void helper(unsigned thread);
  std::uint32_t wait_for_job(std::uint32_t seen);

  // A job is published by closing the claims of the one before, writing its description and then claims_ =
  // (generation, next piece) with release. A claim is a compare-exchange on claims_: it succeeds only while
  // that generation still has unclaimed pieces, hence while its description is still the one that was read.
  std::atomic<std::uint64_t> claims_{0};
  std::atomic<std::uint32_t> count_{0};
  std::atomic<void (*)(void*, std::uint32_t, unsigned)> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  alignas(64) std::atomic<std::uint32_t> ended_{0};  ///< pieces of this job; the caller sleeps on it
  std::atomic<std::uint32_t> caller_sleeps_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};  ///< helpers sleep on it
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace yolk::gpu::host
