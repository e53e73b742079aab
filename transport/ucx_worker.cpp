#include "transport/ucx_worker.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/invariant.hpp"
#include "transport/descriptor_seal.hpp"
#include "transport/live_regions.hpp"

namespace yolk::transport {
namespace {

/// The header's own page, so that the region keeps the alignment of a page.
constexpr std::size_t header_page_bytes = 4096;
constexpr std::size_t max_region_bytes = std::size_t{1} << 46;  // what an address space can hold
/// After so many refusals to arm without any progress, waits end by time: UCX may refuse as long as a peer
/// does not take what is queued for it, and to poll for that would burn a core until the deadline.
constexpr int max_busy_streak = 64;
constexpr int busy_wait_ms = 1;

core::failure<errc> setup_failure(const std::string& what, ucs_status_t status) {
  return {errc::setup_failed, "UCX: " + what + ": " + ucs_status_string(status)};
}

core::failure<errc> setup_failure(const std::string& what) {
  return {errc::setup_failed, what + ": " + std::strerror(errno)};
}

}  // namespace

result<std::unique_ptr<ucx_worker>> ucx_worker::create(const engine_options& options) {
  if (options.region_bytes == 0 || options.region_bytes > max_region_bytes) {
    return core::failure<errc>{errc::setup_failed, "region of " + std::to_string(options.region_bytes) +
                                                       " bytes: at least 1 and at most " +
                                                       std::to_string(max_region_bytes)};
  }
  std::unique_ptr<ucx_worker> worker(new ucx_worker);
  if (auto failed = worker->set_up(options)) return std::move(*failed);
  return worker;
}

std::optional<core::failure<errc>> ucx_worker::set_up(const engine_options& options) {
  if (auto failed = set_up_context(options)) return failed;
  if (auto failed = set_up_region(options)) return failed;
  return set_up_wait();
}

std::optional<core::failure<errc>> ucx_worker::set_up_context(const engine_options& options) {
  ucp_config_t* config = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &config))
    return setup_failure("ucp_config_read", status);
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> config_owner(config,
                                                                                  &ucp_config_release);
  const std::pair<const char*, const char*> settings[] = {
      // Without this, endpoints that handle a peer's death would not use shared memory at all.
      {"MM_ERROR_HANDLING", "y"},
      // A message is copied into UCX's send buffer (64 KiB, so that each of ours is one segment) rather than
      // sent from where
      // it lies: when the connection breaks, UCX 1.13 ends a send of the latter kind twice and aborts over
      // it.
      {"ZCOPY_THRESH", "inf"},
      {"TCP_TX_SEG_SIZE", "64kb"},
  };
  for (const auto& [name, value] : settings) {
    if (const auto status = ucp_config_modify(config, name, value)) return setup_failure(name, status);
  }
  if (!options.transports.empty()) {
    if (const auto status = ucp_config_modify(config, "TLS", options.transports.c_str())) {
      return setup_failure("transports '" + options.transports + "'", status);
    }
  }
  if (!options.network_devices.empty()) {
    if (const auto status = ucp_config_modify(config, "NET_DEVICES", options.network_devices.c_str())) {
      return setup_failure("network devices '" + options.network_devices + "'", status);
    }
  }
  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
  parameters.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (const auto status = ucp_init(&parameters, config, &context_)) {
    return setup_failure("ucp_init with transports '" + options.transports + "'", status);
  }
  ucp_worker_params_t worker_parameters{};
  worker_parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // One thread at a time: it is set up by the thread that starts the engine and torn down by the one that
  // ends it.
  worker_parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const auto status = ucp_worker_create(context_, &worker_parameters, &worker_)) {
    return setup_failure("ucp_worker_create", status);
  }
  return std::nullopt;
}

std::optional<core::failure<errc>> ucx_worker::set_up_region(const engine_options& options) {
  // Allocated by UCX, not merely registered: such memory lies in a segment that peers map, so that their put
  // and get are a memcpy which needs no thread of ours.
  ucp_mem_map_params_t map{};
  map.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  map.length = options.region_bytes + header_page_bytes;
  map.flags = UCP_MEM_MAP_ALLOCATE;
  if (const auto status = ucp_mem_map(context_, &map, &memory_)) {
    return setup_failure("region of " + std::to_string(options.region_bytes) + " bytes", status);
  }
  ucp_mem_attr_t attributes{};
  attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  if (const auto status = ucp_mem_query(memory_, &attributes)) return setup_failure("ucp_mem_query", status);
  auto* const page = static_cast<std::byte*>(attributes.address);
  region_ = {page + header_page_bytes, options.region_bytes};
  header_ = new (page + header_page_bytes - sizeof(region_header)) region_header;
  nonce_ = live_regions::add();
  header_->nonce = nonce_;
  header_->owner = options.owner.value;
  header_->base_address = reinterpret_cast<std::uint64_t>(region_.data());
  header_->length_bytes = region_.size();
  header_->magic = region_magic;

  void* key = nullptr;
  std::size_t key_bytes = 0;
  if (const auto status = ucp_rkey_pack(context_, memory_, &key, &key_bytes)) {
    return setup_failure("ucp_rkey_pack", status);
  }
  const std::unique_ptr<void, decltype(&ucp_rkey_buffer_release)> key_owner(key, &ucp_rkey_buffer_release);
  ucp_address_t* address = nullptr;
  std::size_t address_bytes = 0;
  if (const auto status = ucp_worker_get_address(worker_, &address, &address_bytes)) {
    return setup_failure("ucp_worker_get_address", status);
  }
  const auto release_address = [this](ucp_address_t* held) { ucp_worker_release_address(worker_, held); };
  const std::unique_ptr<ucp_address_t, decltype(release_address)> address_owner(address, release_address);
  if (key_bytes > max_key_bytes || address_bytes > max_key_bytes) {
    return core::failure<errc>{errc::setup_failed, "UCX's key of " + std::to_string(key_bytes) +
                                                       " or address of " + std::to_string(address_bytes) +
                                                       " bytes exceeds " + std::to_string(max_key_bytes)};
  }
  descriptor_ =
      seal_descriptor(options.owner, reinterpret_cast<std::uint64_t>(region_.data()), region_.size(),
                      {header_->nonce,
                       {static_cast<const std::byte*>(key), key_bytes},
                       {reinterpret_cast<const std::byte*>(address), address_bytes}});
  return std::nullopt;
}

std::optional<core::failure<errc>> ucx_worker::set_up_wait() {
  int ucx_fd = -1;  // UCX's own, closed by it
  if (const auto status = ucp_worker_get_efd(worker_, &ucx_fd))
    return setup_failure("ucp_worker_get_efd", status);
  wake_fd_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0) return setup_failure("eventfd");
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return setup_failure("epoll_create1");
  for (const int fd : {ucx_fd, wake_fd_}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return setup_failure("epoll_ctl");
  }
  return std::nullopt;
}

ucx_worker::~ucx_worker() {
  revoke();
  const auto unmap = [this] {
    if (memory_ != nullptr) ucp_mem_unmap(context_, memory_);
  };
  if (nonce_ != 0)
    live_regions::remove(nonce_, unmap);
  else
    unmap();
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
  if (wake_fd_ >= 0) ::close(wake_fd_);
}

bool ucx_worker::progress() {
  constexpr int max_rounds = 64;  // then the engine looks at its queue and its deadlines again
  bool any = false;
  for (int round = 0; round < max_rounds && ucp_worker_progress(worker_) != 0; ++round) any = true;
  if (any) busy_streak_ = 0;
  return any;
}

void ucx_worker::wait(std::optional<core::time_point> until) {
  int timeout_ms = -1;
  if (until) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now()).count();
    timeout_ms = static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
  }
  const ucs_status_t armed = ucp_worker_arm(worker_);
  if (armed == UCS_OK) {
    busy_streak_ = 0;
  } else {
    // Something arrived since the last progress; go and see, but not for ever.
    if (++busy_streak_ < max_busy_streak) return;
    timeout_ms = timeout_ms < 0 ? busy_wait_ms : std::min(timeout_ms, busy_wait_ms);
  }
  epoll_event events[2];
  const int ready = ::epoll_wait(epoll_fd_, events, 2, timeout_ms);
  for (int i = 0; i < ready; ++i) {
    if (events[i].data.fd != wake_fd_) continue;
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(wake_fd_, &count, sizeof count);
  }
}

void ucx_worker::wake() const {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the reader is awake already.
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

void ucx_worker::revoke() {
  if (header_ == nullptr) return;
  // Peers read this through mappings of their own: the store must really happen before the memory is given
  // back.
  std::atomic_ref(header_->nonce).store(0, std::memory_order_seq_cst);
}

}  // namespace yolk::transport
