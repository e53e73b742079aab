#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/clock.hpp"
#include "gpu/device.hpp"
#include "gpu/host/aligned_buffer.hpp"
#include "gpu/host/host_platform.hpp"
#include "gpu/host/host_turnstile.hpp"
#include "gpu/host/kernel_table.hpp"
#include "gpu/host/thread_team.hpp"

namespace yolk::gpu::host {

/// What all devices of a platform share. Lives as long as the last of them. `scratch` belongs to the team's
/// threads (by number) while they run a piece, hence to whoever has the turn.
struct host_cores {
  host_cores(unsigned thread_count, double prefill_share, const kernel_table& table)
      : kernels(table), team(thread_count), turnstile(prefill_share, clock) {}

  const kernel_table& kernels;
  core::steady_clock clock;
  thread_team team;
  host_turnstile turnstile;
  std::vector<aligned_buffer> scratch;

  /// Runs work(piece, scratch) for pieces 0 .. count on the team under turn `who`, letting decode steps of
  /// other devices through between pieces.
  template <class Work>
  void for_pieces(host_turnstile::ticket who, std::size_t count, const Work& work) {
    const auto run_piece = [&](std::uint32_t piece, unsigned thread) { work(piece, scratch[thread].data()); };
    std::uint32_t next = 0;
    const auto end = static_cast<std::uint32_t>(count);
    for (;;) {
      next = team.run(next, end, run_piece, [&] { return turnstile.should_lend(who); });
      if (next == end) return;
      turnstile.pause(who);
    }
  }
};

/// The CPU as one worker's device: kernels are cut into pieces of a few milliseconds at most, which the team
/// works off. Used by its worker's driver thread alone.
class host_device final : public device {
 public:
  explicit host_device(std::shared_ptr<host_cores> cores) : cores_(std::move(cores)) {}
  ~host_device() override;

  [[nodiscard]] std::string_view kind() const override { return "host"; }
  void begin_step(step_class kind) override;
  void end_step() override;
  void embed(const embed_args& args) override;
  void rms_norm(const rms_norm_args& args) override;
  void gemm(const gemm_args& args) override;
  void rope_scatter(const rope_scatter_args& args) override;
  void paged_attention(const paged_attention_args& args) override;
  void swiglu(const swiglu_args& args) override;

 private:
  /// Rows of a ragged batch, by span and index within it.
  struct span_rows {
    std::uint32_t span = 0;
    std::uint32_t index = 0;
    std::uint32_t count = 1;
  };

  const void* pack_rows(const gemm_args& args, const row_groups& groups);
  void attention_piece_of(const paged_attention_args& args, std::size_t piece, void* scratch) const;
  void list_attention_tiles(const paged_attention_args& args);

  template <class Work>
  void for_rows(std::size_t row_count, std::size_t row_cost, const Work& work);

  std::shared_ptr<host_cores> cores_;
  std::optional<host_turnstile::ticket> turn_;
  aligned_buffer packed_rows_;   ///< activations of the GEMM in progress; grows to the largest step
  std::vector<span_rows> rows_;  ///< rows, or tiles of them, of the call in progress
};

}  // namespace yolk::gpu::host
