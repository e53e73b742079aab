#include "cli/serve.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "actors/supervisor/node.hpp"
#include "cli/api_keys.hpp"
#include "cli/format.hpp"
#include "cli/model_folder.hpp"
#include "cli/option_file.hpp"
#include "gpu/host/host_platform.hpp"
#include "model/loaded_model.hpp"
#include "scheduling/placement.hpp"

namespace yolk::cli {

namespace {

int fail(const std::string& message) {
  std::fprintf(stderr, "yolk serve: %s\n", message.c_str());
  return 1;
}

void print_summary(const serve_options& options, const actors::worker_factory& factory,
                   const gpu::platform& platform, std::uint16_t port) {
  const auto& model = *factory.model();
  const auto& node = factory.options();
  const auto host =
      options.node.gateway.host == "0.0.0.0" ? std::string("127.0.0.1") : options.node.gateway.host;
  const auto url = "http://" + host + ":" + std::to_string(port);
  const auto key = node.gateway.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  std::printf("yolk %s\n", YOLK_VERSION);
  std::printf("  model    %s (%s, %s parameters, context %u)\n", model.name.c_str(),
              model.config.model_type.c_str(), short_count(model.parameter_count).c_str(),
              factory.max_context_tokens());
  std::printf("  device   %s\n", platform.description().c_str());
  std::printf("  workers  %u prefill, %u decode\n", node.prefill_workers, node.decode_workers);
  std::printf("  KV       %s a token; %s per prefill worker, %s per decode worker, %s DRAM cache\n",
              short_bytes(model.config.kv_layout(node.block_tokens).token_bytes()).c_str(),
              short_bytes(node.prefill_kv_bytes).c_str(), short_bytes(node.decode_kv_bytes).c_str(),
              short_bytes(node.cache_dram_bytes).c_str());
  std::printf("  serving  %s  (a page to look at; /v1, /metrics, /health)\n\n", url.c_str());
  std::printf(
      "  curl %s/v1/chat/completions%s -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n\n",
      url.c_str(), key);
  std::fflush(stdout);
}

/// Blocked before any thread starts, so that every thread inherits the mask and only wait_for_signal sees
/// them.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

/// Stops the node at the first signal; a second one ends the drain.
void wait_and_stop(const sigset_t& signals, actors::node& node, unsigned drain_seconds) {
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  std::printf("yolk: stopping; running requests have %u s (a second signal ends them now)\n", drain_seconds);
  std::fflush(stdout);
  std::atomic<bool> stopped = false;
  std::thread second([&] {
    int again = 0;
    while (sigwait(&signals, &again) == 0 && !stopped) node.hurry();
  });
  node.stop();
  stopped = true;
  pthread_kill(second.native_handle(), SIGTERM);
  second.join();
}

/// Why the pools cannot lie in this machine's memory, or nothing.
std::string pools_too_large(const actors::node_options& node) {
  const auto memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  const auto pools = node.prefill_workers * node.prefill_kv_bytes +
                     node.decode_workers * node.decode_kv_bytes + node.cache_dram_bytes;
  if (pools <= memory) return {};
  return "--prefill-kv, --decode-kv, --cache-dram: the workers' pools and the cache need " +
         short_bytes(pools) + ", this machine has " + short_bytes(memory);
}

/// A connection is a descriptor; the soft limit of many systems is 1,024.
void allow_many_sockets() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void declare_scheduling(CLI::App& serve_app, actors::conductor_options& conductor) {
  auto* serve = &serve_app;
  const auto policies = scheduling::placement_policy_names();
  serve->add_option("--placement", conductor.placement, "How workers are chosen for a request")
      ->check(CLI::IsMember(std::vector<std::string>(policies.begin(), policies.end())))
      ->capture_default_str();
  const auto rules = scheduling::admission_rule_names();
  serve
      ->add_option("--admission", conductor.admission,
                   "When a request is refused for the targets --slo-ttft and --slo-tbt")
      ->check(CLI::IsMember(std::vector<std::string>(rules.begin(), rules.end())))
      ->capture_default_str();
  serve->add_option("--slo-ttft", conductor.slo.ttft_seconds, "Target of the time to first token, in seconds")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  serve->add_option("--slo-tbt", conductor.slo.tbt_seconds, "Target of the time between tokens, in seconds")
      ->check(CLI::Range(1e-4, 1e6))
      ->capture_default_str();
}

}  // namespace

void declare_serve(CLI::App& serve_app, serve_options& options) {
  auto* serve = &serve_app;
  auto& node = options.node;
  add_option_file(*serve, "serve");
  serve->add_option("--host", node.gateway.host, "Address to listen on")->capture_default_str();
  serve->add_option("--port", node.gateway.port, "Port to listen on; 0 = any free one")
      ->capture_default_str();
  serve->add_option("--model", options.model_folder,
                    "A Hugging Face model folder (default: the builtin model)");
  serve->add_option("--served-model-name", options.served_name,
                    "What clients call the model (default: its folder)");
  serve->add_option("--device", options.device, "Where kernels run")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  serve
      ->add_option("--threads", options.threads,
                   "Threads of the host device; 0 = as many as the process may use")
      ->capture_default_str();
  serve->add_option("--prefill-workers", node.prefill_workers, "Actors that compute prompts")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  serve->add_option("--decode-workers", node.decode_workers, "Actors that generate tokens")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  add_byte_size(*serve, "--cache-dram", node.cache_dram_bytes,
                "DRAM for the prefix cache, in bytes (suffixes: KiB, MiB, GiB)");
  add_byte_size(*serve, "--prefill-kv", node.prefill_kv_bytes, "KV blocks of each prefill worker, in bytes");
  add_byte_size(*serve, "--decode-kv", node.decode_kv_bytes, "KV blocks of each decode worker, in bytes");
  serve->add_option("--block-tokens", node.block_tokens, "Tokens in a KV block")
      ->check(CLI::IsMember({8, 16, 32, 64}))
      ->capture_default_str();
  serve->add_option("--chunk-tokens", node.prefill.chunk_tokens, "Prompt tokens computed in one step")
      ->check(CLI::Range(16, 8192))
      ->capture_default_str();
  serve->add_option("--max-batch", node.decode.max_batch, "Sequences decoded in one step")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  serve
      ->add_option("--prefill-share", options.prefill_share,
                   "How long, in decode steps, a prefill may hold the cores between two decode steps")
      ->check(CLI::Range(0.1, 100.0))
      ->capture_default_str();
  declare_scheduling(serve_app, node.conductor);
  serve->add_option("--max-running", node.admission.max_running, "Requests in work at once")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  serve
      ->add_option("--max-waiting", node.admission.max_waiting,
                   "Requests that wait; one more is answered 429")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  serve
      ->add_option("--drain-seconds", options.drain_seconds,
                   "At SIGTERM: how long running requests may go on")
      ->capture_default_str();
  serve->add_option("--api-keys", options.api_keys_file, "File of API keys: KEY [TENANT] a line");
  serve->add_option("--cors-origin", node.gateway.cors_origin,
                    "Origin whose pages may call from a browser; * = all (default: none)");
}

int run_serve(const serve_options& given) {
  auto options = given;
  if (options.device == "cuda")
    return fail("--device cuda: this program was built without CUDA; use --device host");
  if (!options.api_keys_file.empty()) {
    auto keys = read_api_keys(options.api_keys_file);
    if (!keys) return fail("--api-keys: " + keys.error().message);
    options.node.gateway.api_keys = std::move(keys).value();
  }
  if (const auto problem = pools_too_large(options.node); !problem.empty()) return fail(problem);
  options.node.drain_limit = std::chrono::seconds(options.drain_seconds);
  const auto signals = block_signals();
  allow_many_sockets();
  const auto folder =
      options.model_folder.empty() ? builtin_model_folder() : std::filesystem::path(options.model_folder);
  if (folder.empty())
    return fail("the builtin model was not found beside this program; name one with --model DIR");

  auto platform = gpu::host::make_host_platform(
      {.thread_count = options.threads, .force_isa = std::nullopt, .prefill_share = options.prefill_share});
  if (!platform) return fail("--device host: " + platform.error().message);
  auto loaded = model::load_model(folder, **platform);
  if (!loaded) return fail("--model: " + loaded.error().message);
  auto model = std::move(loaded).value();
  if (!options.served_name.empty()) {
    auto renamed = std::make_shared<model::loaded_model>(*model);
    renamed->name = options.served_name;
    model = std::move(renamed);
  }
  options.node.conductor.block_tokens = options.node.block_tokens;
  auto factory = std::make_shared<const actors::worker_factory>(
      options.node, model, *platform, std::make_shared<actors::metrics>(model->name),
      std::make_shared<core::steady_clock>());
  if (factory->max_context_tokens() < 2 * options.node.block_tokens)
    return fail("--prefill-kv, --decode-kv: too small, a pool must hold at least two blocks");
  auto node = actors::node::start(factory);
  if (!node) return fail(node.error().message);
  print_summary(options, *factory, **platform, (*node)->port());
  if (factory->max_context_tokens() < model->config.context_length)
    std::fprintf(stderr, "yolk serve: the KV pools limit the context to %u of %u tokens\n",
                 factory->max_context_tokens(), model->config.context_length);

  wait_and_stop(signals, **node, options.drain_seconds);
  return 0;
}

}  // namespace yolk::cli
