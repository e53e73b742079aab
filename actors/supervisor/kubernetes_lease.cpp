#include "actors/supervisor/kubernetes_lease.hpp"

#include <curl/curl.h>

#include <condition_variable>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/clock.hpp"

namespace yolk::actors {

namespace {

using nlohmann::json;
using steady = std::chrono::steady_clock;

constexpr const char* account_folder = "/var/run/secrets/kubernetes.io/serviceaccount/";
constexpr std::size_t max_answer_bytes = std::size_t{1} << 20;

core::failure<lease_errc> unusable(const std::string& why) {
  return core::failure<lease_errc>{lease_errc::unusable, why};
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  return text;
}

/// Empty where it is no text.
std::string text_in(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

json part_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : json::object();
}

/// Kubernetes' MicroTime; for people, nobody's decision rests on it.
std::string now_text() {
  const auto now = std::chrono::system_clock::now();
  const auto whole = std::chrono::system_clock::to_time_t(now);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1'000'000;
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char seconds[32], all[48];
  std::strftime(seconds, sizeof seconds, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(all, sizeof all, "%s.%06dZ", seconds, static_cast<int>(micros));
  return all;
}

std::size_t take_bytes(char* bytes, std::size_t, std::size_t count, void* into) {
  auto& body = *static_cast<std::string*>(into);
  if (body.size() + count > max_answer_bytes) return 0;
  body.append(bytes, count);
  return count;
}

/// One connection to the API server, used by one thread.
class api_client {
 public:
  struct answer {
    long status = 0;  ///< 0: there was none
    json body;
  };

  explicit api_client(const kubernetes_lease_options& options) : options_(options) {
    static const bool once = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    handle_ = once ? curl_easy_init() : nullptr;
  }
  ~api_client() { curl_easy_cleanup(handle_); }
  api_client(const api_client&) = delete;
  api_client& operator=(const api_client&) = delete;

  [[nodiscard]] answer ask(const char* method, const std::string& path, const std::string& body = {}) {
    answer got;
    if (handle_ == nullptr) return got;
    curl_easy_reset(handle_);
    const bool inside = options_.api.empty();
    const std::string url = (inside ? inside_url() : options_.api) + path;
    curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
    // Read again each time: Kubernetes renews it.
    if (inside)
      headers = curl_slist_append(
          headers, ("Authorization: Bearer " + text_of(std::string(account_folder) + "token")).c_str());
    const std::string authority = std::string(account_folder) + "ca.crt";
    if (inside) curl_easy_setopt(handle_, CURLOPT_CAINFO, authority.c_str());
    std::string text;
    curl_easy_setopt(handle_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(handle_, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle_, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.duration.count() / 3));
    curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(handle_, CURLOPT_WRITEDATA, &text);
    if (!body.empty()) {
      curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
      curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, body.c_str());
    }
    if (curl_easy_perform(handle_) == CURLE_OK)
      curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &got.status);
    curl_slist_free_all(headers);
    got.body = json::parse(text, nullptr, false);
    return got;
  }

 private:
  static std::string inside_url() {
    const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
    const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
    const std::string name = host == nullptr ? "kubernetes.default.svc" : host;
    return "https://" + (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" +
           (port == nullptr ? "443" : port);
  }

  const kubernetes_lease_options& options_;
  CURL* handle_ = nullptr;
};

class kubernetes_lease final : public lease {
 public:
  explicit kubernetes_lease(kubernetes_lease_options options)
      : options_(std::move(options)), client_(options_), thread_([this] { run(); }) {}
  ~kubernetes_lease() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  kubernetes_lease(const kubernetes_lease&) = delete;
  kubernetes_lease& operator=(const kubernetes_lease&) = delete;

  bool try_acquire() override { return holds(); }
  [[nodiscard]] bool holds() const override {
    const std::lock_guard lock(mutex_);
    return steady::now() < held_until_;
  }
  [[nodiscard]] std::string description() const override {
    const std::lock_guard lock(mutex_);
    return "the lease " + options_.name_space + "/" + options_.name + " (" + state_ + ")";
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      lock.unlock();
      step();
      lock.lock();
      wake_.wait_for(lock, options_.duration / 3, [this] { return ending_; });
    }
    lock.unlock();
    if (holds()) give_back();
  }

  /// Looks at the object, and takes or renews it where that is ours to do.
  void step() {
    const auto asked = steady::now();
    const auto seen = client_.ask("GET", path() + "/" + options_.name);
    if (seen.status == 404) return took(asked, client_.ask("POST", path(), object(json::object()).dump()));
    if (seen.status != 200 || !seen.body.is_object())
      return tell(seen.status == 0 ? "the API server does not answer"
                                   : "the API server answers " + std::to_string(seen.status));
    const json spec = part_of(seen.body, "spec");
    const std::string holder = text_in(spec, "holderIdentity");
    const std::string version = text_in(part_of(seen.body, "metadata"), "resourceVersion");
    if (version != seen_version_) {
      seen_version_ = version;
      seen_at_ = asked;
    }
    const bool free = holder.empty() || asked - seen_at_ >= duration_of(spec);
    if (holder != options_.holder && !free) return tell("held by " + holder);
    took(asked, client_.ask("PUT", path() + "/" + options_.name, object(seen.body).dump()));
  }

  /// The other's word counts: it renews as often as its own duration asks.
  [[nodiscard]] std::chrono::milliseconds duration_of(const json& spec) const {
    const auto given = spec.find("leaseDurationSeconds");
    if (given == spec.end() || !given->is_number()) return options_.duration;
    return std::max(options_.duration,
                    std::chrono::milliseconds(static_cast<std::int64_t>(given->get<double>() * 1000)));
  }

  void took(steady::time_point asked, const api_client::answer& answer) {
    if (answer.status != 200 && answer.status != 201)
      return tell(answer.status == 409 ? "another was quicker"
                                       : "the API server answers " + std::to_string(answer.status));
    if (text_in(part_of(answer.body, "spec"), "holderIdentity") != options_.holder)
      return tell("the API server answers with no Lease");
    const std::lock_guard lock(mutex_);
    held_until_ = asked + options_.duration * 2 / 3;
    state_ = "held";
  }

  void give_back() {
    auto seen = client_.ask("GET", path() + "/" + options_.name);
    if (seen.status != 200 || !seen.body.is_object()) return;
    if (text_in(part_of(seen.body, "spec"), "holderIdentity") != options_.holder) return;
    seen.body["spec"]["holderIdentity"] = "";
    (void)client_.ask("PUT", path() + "/" + options_.name, seen.body.dump());
  }

  [[nodiscard]] std::string path() const {
    return "/apis/coordination.k8s.io/v1/namespaces/" + options_.name_space + "/leases";
  }

  /// With the version that was seen, so that of two who write one fails.
  [[nodiscard]] json object(json seen) const {
    json metadata = part_of(seen, "metadata");
    json spec = part_of(seen, "spec");
    seen["apiVersion"] = "coordination.k8s.io/v1";
    seen["kind"] = "Lease";
    metadata["name"] = options_.name;
    metadata["namespace"] = options_.name_space;
    const auto now = now_text();
    if (text_in(spec, "holderIdentity") != options_.holder) spec["acquireTime"] = now;
    spec["holderIdentity"] = options_.holder;
    spec["leaseDurationSeconds"] =
        std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options_.duration).count());
    spec["renewTime"] = now;
    seen["metadata"] = std::move(metadata);
    seen["spec"] = std::move(spec);
    return seen;
  }

  void tell(std::string state) {
    const std::lock_guard lock(mutex_);
    state_ = std::move(state);
  }

  kubernetes_lease_options options_;
  api_client client_;  ///< the thread's
  std::string seen_version_;
  steady::time_point seen_at_{};

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  steady::time_point held_until_{};
  std::string state_ = "asked for";

  std::thread thread_;
};

}  // namespace

core::result<kubernetes_lease_options, lease_errc> parse_kubernetes_lease(const std::string& text) {
  kubernetes_lease_options options;
  const auto last = text.rfind('/');
  if (last == std::string::npos) {
    options.name = text;
    options.name_space = text_of(std::string(account_folder) + "namespace");
    if (options.name_space.empty())
      return unusable("k8s:" + text + ": this process does not run in a pod (no " + account_folder +
                      "namespace); name the API server: k8s:URL/NAMESPACE/NAME");
  } else {
    options.name = text.substr(last + 1);
    const auto first = text.rfind('/', last - 1);
    if (first != std::string::npos && last > 0) {
      options.api = text.substr(0, first);
      options.name_space = text.substr(first + 1, last - first - 1);
    }
    if (options.api.find("://") == std::string::npos || options.name_space.empty())
      return unusable("k8s:" + text + " is neither k8s:NAME nor k8s:URL/NAMESPACE/NAME");
  }
  const auto is_name = [](const std::string& name) {
    return !name.empty() &&
           name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string::npos;
  };
  if (!is_name(options.name) || !is_name(options.name_space))
    return unusable("k8s:" + text + ": a name has lower-case letters, digits, - and . alone");
  return options;
}

core::result<std::shared_ptr<lease>, lease_errc> make_kubernetes_lease(kubernetes_lease_options options) {
  return std::shared_ptr<lease>(std::make_shared<kubernetes_lease>(std::move(options)));
}

}  // namespace yolk::actors
