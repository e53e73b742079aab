#include "gpu/host/host_platform.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "gpu/host/host_device.hpp"
#include "gpu/host/packed_matrix.hpp"

namespace yolk::gpu::host {

namespace {

/// More threads than this are refused: a mistyped number should not start them.
constexpr unsigned max_thread_count = 1024;

const kernel_table* kernels_of(instruction_set isa) {
  switch (isa) {
    case instruction_set::plain:
      return &plain_kernels;
#if defined(__x86_64__)
    case instruction_set::avx2:
      return &avx2_kernels;
    case instruction_set::avx512:
      return &avx512_kernels;
    case instruction_set::avx512_bf16:
      return &avx512_bf16_kernels;
#else
    default:
      return nullptr;
#endif
  }
  return nullptr;
}

std::string_view name_of(instruction_set isa) {
  switch (isa) {
    case instruction_set::plain:
      return "no vector instructions assumed";
    case instruction_set::avx2:
      return "AVX2";
    case instruction_set::avx512:
      return "AVX-512";
    case instruction_set::avx512_bf16:
      return "AVX-512 with bf16 dot products";
  }
  return "?";
}

#if defined(__x86_64__)
/// Products a second on one core, the better of several short runs: a neighbour can only make it look slower.
double product_rate(const kernel_table& kernels) {
  constexpr std::size_t instructions = 1 << 17;
  double best = 0.0;
  for (int run = 0; run < 5; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const volatile float kept = kernels.probe(instructions);
    static_cast<void>(kept);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(instructions * kernels.probe_products) / took.count());
  }
  return best;
}

/// CPUs run vdpbf16ps at half, the same or twice the products of float multiply-adds; 1.3 is far from all
/// three.
bool dot_products_pay() {
  return product_rate(avx512_bf16_kernels) >= 1.3 * product_rate(avx512_kernels);
}
#endif

unsigned usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

class host_platform_impl final : public platform {
 public:
  host_platform_impl(instruction_set isa, std::shared_ptr<host_cores> cores)
      : isa_(isa), cores_(std::move(cores)) {}

  [[nodiscard]] std::string_view kind() const override { return "host"; }
  [[nodiscard]] std::string description() const override {
    const unsigned threads = cores_->team.thread_count();
    return "host: " + std::string(name_of(isa_)) + ", " + std::to_string(threads) + " thread" +
           (threads == 1 ? "" : "s");
  }
  [[nodiscard]] std::string numerics() const override { return cores_->kernels.numerics; }

  [[nodiscard]] result<std::shared_ptr<const weight_matrix>> pack(
      std::span<const matrix_view> stacked) override {
    result<std::shared_ptr<packed_matrix>> made = packed_matrix::create(stacked);
    if (!made) return made.error();
    packed_matrix& matrix = **made;
    // Packing shares the cores like a prefill step.
    const host_turnstile::ticket turn = cores_->turnstile.begin(step_class::prefill);
    cores_->for_pieces(turn, matrix.panel_count(),
                       [&](std::size_t panel, void*) { matrix.pack_panel(stacked, panel); });
    cores_->turnstile.end(turn);
    return std::shared_ptr<const weight_matrix>(*std::move(made));
  }

  [[nodiscard]] result<std::unique_ptr<device>> create_device() override {
    return std::unique_ptr<device>(std::make_unique<host_device>(cores_));
  }

 private:
  instruction_set isa_;
  std::shared_ptr<host_cores> cores_;
};

}  // namespace

std::vector<instruction_set> available_instruction_sets() {
  std::vector<instruction_set> sets = {instruction_set::plain};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v3")) sets.push_back(instruction_set::avx2);
  if (__builtin_cpu_supports("x86-64-v4")) {
    sets.push_back(instruction_set::avx512);
    if (__builtin_cpu_supports("avx512bf16")) {
      sets.push_back(instruction_set::avx512_bf16);
      if (!dot_products_pay()) std::swap(sets[sets.size() - 1], sets[sets.size() - 2]);
    }
  }
#endif
  return sets;
}

result<std::shared_ptr<platform>> make_host_platform(const host_options& options) {
  const std::vector<instruction_set> sets = available_instruction_sets();
  const instruction_set isa = options.force_isa.value_or(sets.back());
  if (std::find(sets.begin(), sets.end(), isa) == sets.end()) {
    return core::failure<errc>{.code = errc::unsupported,
                               .message = "host platform: this CPU lacks " + std::string(name_of(isa))};
  }
  if (options.thread_count > max_thread_count || !(options.prefill_share >= 0.0)) {
    return core::failure<errc>{
        .code = errc::unsupported,
        .message = "host platform: thread_count " + std::to_string(options.thread_count) + " (at most " +
                   std::to_string(max_thread_count) + ") or prefill_share " +
                   std::to_string(options.prefill_share) + " (at least 0) is out of range"};
  }
  const unsigned threads = options.thread_count != 0 ? options.thread_count : usable_threads();
  auto cores = std::make_shared<host_cores>(threads, options.prefill_share, *kernels_of(isa));
  for (unsigned i = 0; i < threads; ++i) {
    cores->scratch.push_back(aligned_buffer::allocate(scratch_bytes));
    if (cores->scratch.back().data() == nullptr) {
      return core::failure<errc>{.code = errc::out_of_memory,
                                 .message = "host platform: no memory for the working memory of " +
                                            std::to_string(threads) + " threads"};
    }
  }
  return std::shared_ptr<platform>(std::make_shared<host_platform_impl>(isa, std::move(cores)));
}

}  // namespace yolk::gpu::host
