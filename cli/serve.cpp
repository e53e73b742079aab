#include "cli/serve.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "actors/http_gateway/descriptor_room.hpp"
#include "actors/http_gateway/http_gateway.hpp"
#include "actors/supervisor/node.hpp"
#include "cli/api_keys.hpp"
#include "cli/cluster_access.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/model_folder.hpp"
#include "cli/option_file.hpp"
#include "gpu/host/host_platform.hpp"
#include "model/loaded_model.hpp"
#include "scheduling/placement.hpp"

namespace yolk::cli {

namespace {

const std::map<std::string, actors::cache_write_policy> write_policies = {
    {"through", actors::cache_write_policy::write_through},
    {"back", actors::cache_write_policy::write_back},
    {"none", actors::cache_write_policy::none}};

constexpr long progress_interval_nanoseconds = 200'000'000;

std::function<int(const std::string&)> failing(const std::string& command, int exit_code) {
  return [command, exit_code](const std::string& message) {
    std::fprintf(stderr, "yolk %s: %s\n", command.c_str(), message.c_str());
    return exit_code;
  };
}

/// What the node is, before anybody has to wait for it.
void print_node(const actors::worker_factory& factory, const gpu::platform& platform) {
  const auto& model = *factory.model();
  const auto& node = factory.options();
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
  if (!node.cache_ssd_folder.empty())
    std::printf("  SSD      %s in %s\n", short_bytes(node.cache_ssd_bytes).c_str(),
                node.cache_ssd_folder.c_str());
}

void print_service(const serve_options& options, std::uint16_t port) {
  const auto url = actors::local_url(options.node.gateway.host, port);
  const auto key = options.node.gateway.api_keys.empty() ? "" : " -H 'Authorization: Bearer YOUR_KEY'";
  // The builtin model recalls what its context says and can do little else.
  const auto asked =
      options.model_folder.empty()
          ? R"("temperature":0,"messages":[{"role":"user","content":"The red fox holds 4821. The tall owl holds silver. What does the tall owl hold?"}])"
          : R"("messages":[{"role":"user","content":"Hello"}])";
  std::printf("  serving  %s  (a page to look at; /v1, /metrics, /health)\n\n", url.c_str());
  std::printf("  curl %s/v1/chat/completions%s -d '{%s}'\n\n", url.c_str(), key, asked);
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

/// Lets running requests end; a second signal cuts that short.
void stop(const sigset_t& signals, actors::node& node, unsigned drain_seconds) {
  std::printf("yolk: stopping; running requests have %u s (a second signal ends them now)\n", drain_seconds);
  std::fflush(stdout);
  std::atomic<bool> stopped = false;
  std::thread second([&] {
    int again = 0;
    while (sigwait(&signals, &again) == 0 && !stopped) node.hurry();
  });
  node.stop();
  stopped = true;
  // Blocked in all threads: it ends the thread's sigwait(), not the thread.
  pthread_kill(second.native_handle(), SIGTERM);  // NOLINT(bugprone-bad-signal-to-kill-thread)
  second.join();
}

/// Why the pools cannot lie in this machine's memory, or in what the process may map of it, or nothing. (UCX
/// ends the process when it cannot start a thread.)
std::string pools_too_large(const actors::node_options& node) {
  const auto memory = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  const auto pools = node.prefill_workers * node.prefill_kv_bytes +
                     node.decode_workers * node.decode_kv_bytes + node.cache_dram_bytes;
  const std::string what =
      "--prefill-kv, --decode-kv, --cache-dram: the workers' pools and the cache need " + short_bytes(pools);
  if (pools > memory) return what + ", this machine has " + short_bytes(memory);
  constexpr std::uint64_t beside = std::uint64_t{768} << 20;  // libraries, threads' stacks, a small model
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= pools + beside)
    return {};
  return what + " and " + short_bytes(beside) + " beside, this process may map " +
         short_bytes(limit.rlim_cur) + " (ulimit -v)";
}

/// Why the node cannot have the descriptors that its workers need, or nothing. (UCX ends the process when it
/// runs out of them.)
std::string too_few_descriptors(const actors::node_options& node) {
  constexpr std::uint64_t of_process = 64;  // and of the first clients
  constexpr std::uint64_t of_engine = 12;   // measured: 8, or 9 on two network devices
  const std::uint64_t engines = std::uint64_t{node.prefill_workers} + node.decode_workers + 1;
  const std::uint64_t needed = (of_process + of_engine * engines) * 5 / 4;  // a fifth is kept in reserve
  const auto limit = actors::descriptor_limit();
  if (limit >= needed) return {};
  return "this process may open " + std::to_string(limit) + " files and sockets, it needs at least " +
         std::to_string(needed) + ": raise the limit (ulimit -n)";
}

/// Which pools hold no two blocks, or nothing.
std::string pools_too_small(const actors::worker_factory& factory) {
  const auto& node = factory.options();
  const auto least = 2 * factory.model()->config.kv_layout(node.block_tokens).block_bytes();
  std::string which;
  if (node.prefill_workers > 0 && node.prefill_kv_bytes < least) which = "--prefill-kv";
  if (node.decode_workers > 0 && node.decode_kv_bytes < least)
    which += which.empty() ? "--decode-kv" : ", --decode-kv";
  if (!which.empty())
    return which + ": too small, a pool must hold at least two blocks (" + short_bytes(least) + ")";
  if (factory.max_context_tokens() < 2 * node.block_tokens)
    return "--block-tokens: the context of " + std::to_string(factory.max_context_tokens()) +
           " tokens holds no two blocks";
  return {};
}

/// Tells how the node gets on, until a signal comes or the cluster refuses it. The exit code.
int attend(const actors::node& node, const serve_options& options, const sigset_t& signals,
           const std::function<int(const std::string&)>& fail) {
  bool running = false;
  std::string told;
  for (;;) {
    const auto now = node.progress();
    if (now.state == actors::node_state::refused)
      return fail(running ? now.text : "refused by the cluster: " + now.text);
    if (now.state == actors::node_state::running && !running) {
      running = true;
      if (now.port != 0)
        print_service(options, now.port);
      else
        std::printf("  running\n\n");
    } else if (!running && now.text != told) {
      told = now.text;
      std::printf("  joining  %s\n", told.c_str());
    }
    std::fflush(stdout);
    if (running && !options.node.cluster.leadership) {  // nothing changes any more
      int signal_number = 0;
      sigwait(&signals, &signal_number);
      return 0;
    }
    const timespec interval{0, progress_interval_nanoseconds};
    if (sigtimedwait(&signals, nullptr, &interval) > 0) return 0;
  }
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

void declare_cache(CLI::App& serve, actors::node_options& node) {
  add_byte_size(serve, "--cache-dram", node.cache_dram_bytes,
                "DRAM for the prefix cache, in bytes (suffixes: KiB, MiB, GiB)");
  const auto orders = kvcache::serving_order_names();
  serve
      .add_option_function<std::string>(
          "--cache-eviction",
          [&node](const std::string& name) {
            node.shard.eviction = kvcache::find_eviction_order(name).value();
            node.prefill.look_ahead = node.shard.eviction == kvcache::eviction_order::look_ahead;
          },
          "Which blocks a full DRAM cache gives up first, of those that no other continues")
      ->check(CLI::IsMember(std::vector<std::string>(orders.begin(), orders.end())))
      ->default_str("lru");
  serve.add_option("--cache-ssd", node.cache_ssd_folder,
                   "Folder for the prefix cache's SSD tier (default: none)");
  add_byte_size(serve, "--cache-ssd-bytes", node.cache_ssd_bytes, "Files of the SSD tier, in bytes at most");
  serve
      .add_option_function<std::string>(
          "--cache-write-policy",
          [&node](const std::string& name) { node.shard.write_policy = write_policies.at(name); },
          "What is written to SSD: through = all, at once; back = what is about to leave DRAM; none = "
          "nothing")
      ->check(CLI::IsMember({"through", "back", "none"}))
      ->default_str("through");
  serve
      .add_option("--cache-save-ahead", node.shard.save_ahead,
                  "With --cache-write-policy back: the part of DRAM that is saved ahead of its eviction")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

}  // namespace

void declare_serve(CLI::App& serve, serve_options& options) {
  add_option_file(serve, "serve");
  declare_service(serve, options);
}

void declare_service(CLI::App& command, serve_options& options) {
  auto* serve = &command;
  auto& node = options.node;
  serve->add_option("--host", node.gateway.host, "Address to listen on")
      ->check(one_word("an address"))
      ->capture_default_str();
  serve->add_option("--port", node.gateway.port, "Port to listen on; 0 = any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  serve->add_option("--model", options.model_folder,
                    "A Hugging Face model folder (default: the builtin model)");
  serve
      ->add_option("--served-model-name", options.served_name,
                   "What clients call the model (default: its folder)")
      ->check(one_line("a name"));
  serve->add_option("--device", options.device, "Where kernels run (cuda: not built in)")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  serve
      ->add_option("--threads", options.threads,
                   "Threads of the host device; 0 = as many as the process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  serve->add_option("--prefill-workers", node.prefill_workers, "Actors that compute prompts")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  serve->add_option("--decode-workers", node.decode_workers, "Actors that generate tokens")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  declare_cache(*serve, node);
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
  declare_scheduling(command, node.conductor);
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
  serve->add_option("--metrics", options.metrics,
                    "HOST:PORT of this node's own /metrics and /health; port 0 = any free one (default: the "
                    "gateway's port has them; without a gateway 127.0.0.1:0)");
  serve->add_option("--api-keys", options.api_keys_file, "File of API keys: KEY [TENANT] a line");
  serve
      ->add_option("--cors-origin", node.gateway.cors_origin,
                   "Origin whose pages may call from a browser; * = all (default: none)")
      ->check(one_word("an origin"));
}

int run_service(const serve_options& given, const std::string& command) {
  const auto fail = failing(command, exit_failed);
  const auto refuse = failing(command, exit_usage);
  auto options = given;
  if (options.device == "cuda")
    return refuse("--device cuda: this program was built without CUDA; use --device host");
  if (!options.api_keys_file.empty()) {
    auto keys = read_api_keys(options.api_keys_file);
    if (!keys) return refuse("--api-keys: " + keys.error().message);
    options.node.gateway.api_keys = std::move(keys).value();
  }
  if ((options.node.cluster.roles & actors::role_gateway) == 0 && options.metrics.empty())
    options.metrics = "127.0.0.1:0";
  options.node.metrics = parse_address(options.metrics);
  if (!options.metrics.empty() && !options.node.metrics)
    return refuse("--metrics: " + options.metrics + " is no HOST:PORT");
  if (const auto problem = pools_too_large(options.node); !problem.empty()) return refuse(problem);
  options.node.drain_limit = std::chrono::seconds(options.drain_seconds);
  const auto signals = block_signals();
  allow_many_sockets();
  if (const auto problem = too_few_descriptors(options.node); !problem.empty()) return fail(problem);
  const auto folder =
      options.model_folder.empty() ? builtin_model_folder() : std::filesystem::path(options.model_folder);
  if (folder.empty())
    return fail("the builtin model was not found beside this program; name one with --model DIR");

  auto platform = gpu::host::make_host_platform(
      {.thread_count = options.threads, .force_isa = std::nullopt, .prefill_share = options.prefill_share});
  if (!platform) return fail("--device host: " + platform.error().message);
  auto loaded = model::load_model(folder, **platform);
  if (!loaded) return refuse("--model: " + loaded.error().message);
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
  if (const auto problem = pools_too_small(*factory); !problem.empty()) return refuse(problem);
  auto node = actors::node::start(factory);
  if (!node) return fail(node.error().message);
  print_node(*factory, **platform);
  if (options.node.cluster.listen)
    std::printf("  door     %s:%u\n", options.node.cluster.listen->host.c_str(), (*node)->door_port());
  if (const auto port = (*node)->metrics_port(); port != 0)
    std::printf("  metrics  %s/metrics  (and /health)\n",
                actors::local_url(options.node.metrics->host, port).c_str());
  if (factory->max_context_tokens() < model->config.context_length)
    std::fprintf(stderr, "yolk %s: the KV pools limit the context to %u of %u tokens\n", command.c_str(),
                 factory->max_context_tokens(), model->config.context_length);

  if (const int exit_code = attend(**node, options, signals, fail); exit_code != 0) {
    (*node)->stop();
    return exit_code;
  }
  stop(signals, **node, options.drain_seconds);
  return 0;
}

}  // namespace yolk::cli
