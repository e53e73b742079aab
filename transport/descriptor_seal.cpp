#include "transport/descriptor_seal.hpp"

#include <cstring>
#include <string>

#include "core/invariant.hpp"

namespace yolk::transport {
namespace {

// Both strings are: seal_header, UCX's bytes, checksum (64 bits). Integers lie in the machine's order: a peer
// of another order sees a wrong magic, which is right, since nothing else of a region would suit it.
struct seal_header {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t reserved = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t padding = 0;
  std::uint64_t nonce = 0;
};
static_assert(sizeof(seal_header) == 24, "no hidden padding travels");

constexpr std::uint32_t remote_key_magic = 0x4b524b59;      // "YKRK"
constexpr std::uint32_t worker_address_magic = 0x41574b59;  // "YKWA"
constexpr std::uint16_t seal_version = 1;
constexpr std::size_t seal_bytes = sizeof(seal_header) + sizeof(std::uint64_t);

// FNV-1a, 64 bits (Fowler, Noll, Vo). Every step is a bijection of the state, so any change to a single byte
// shows.
class checksum {
 public:
  checksum& add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes)
      state_ = (state_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3u;
    return *this;
  }
  checksum& add(std::uint64_t value) { return add(std::as_bytes(std::span(&value, 1))); }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

std::uint64_t remote_key_checksum(const region_descriptor& descriptor, std::span<const std::byte> body) {
  return checksum{}
      .add(descriptor.owner.value)
      .add(descriptor.base_address)
      .add(descriptor.length_bytes)
      .add(std::uint64_t{descriptor.worker_address.size()})
      .add(descriptor.worker_address)
      .add(body)
      .value();
}

std::vector<std::byte> sealed_body(const seal_header& header, std::span<const std::byte> payload) {
  std::vector<std::byte> out(sizeof header + payload.size());
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, payload.data(), payload.size());
  return out;
}

void append(std::vector<std::byte>& out, std::uint64_t value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

core::failure<errc> malformed(const char* what, const std::string& why) {
  return {errc::peer_unreachable, std::string("malformed descriptor: ") + what + ' ' + why};
}

struct opened {
  seal_header header;
  std::span<const std::byte> body;  // header and payload
  std::uint64_t checksum = 0;
};

result<opened> open_one(const char* what, std::span<const std::byte> bytes, std::uint32_t magic) {
  if (bytes.size() <= seal_bytes || bytes.size() > max_key_bytes + seal_bytes) {
    return malformed(what, "has " + std::to_string(bytes.size()) + " bytes: more than " +
                               std::to_string(seal_bytes) + " and at most " +
                               std::to_string(max_key_bytes + seal_bytes));
  }
  opened out;
  std::memcpy(&out.header, bytes.data(), sizeof out.header);
  out.body = bytes.first(bytes.size() - sizeof(std::uint64_t));
  std::memcpy(&out.checksum, bytes.data() + out.body.size(), sizeof out.checksum);
  if (out.header.magic != magic) return malformed(what, "has a wrong magic");
  if (out.header.version != seal_version) {
    return malformed(
        what, "has version " + std::to_string(out.header.version) + ", not " + std::to_string(seal_version));
  }
  if (out.header.payload_bytes != bytes.size() - seal_bytes) {
    return malformed(what, "says " + std::to_string(out.header.payload_bytes) + " bytes but has " +
                               std::to_string(bytes.size() - seal_bytes));
  }
  return out;
}

}  // namespace

region_descriptor seal_descriptor(core::incarnation owner, std::uint64_t base_address,
                                  std::uint64_t length_bytes, const region_keys& keys) {
  YOLK_INVARIANT(!keys.remote_key.empty() && keys.remote_key.size() <= max_key_bytes, keys.remote_key.size());
  YOLK_INVARIANT(!keys.worker_address.empty() && keys.worker_address.size() <= max_key_bytes,
                 keys.worker_address.size());
  region_descriptor descriptor;
  descriptor.owner = owner;
  descriptor.base_address = base_address;
  descriptor.length_bytes = length_bytes;
  seal_header header;
  header.magic = worker_address_magic;
  header.version = seal_version;
  header.payload_bytes = static_cast<std::uint32_t>(keys.worker_address.size());
  header.nonce = keys.nonce;
  descriptor.worker_address = sealed_body(header, keys.worker_address);
  append(descriptor.worker_address, checksum{}.add(descriptor.worker_address).value());
  header.magic = remote_key_magic;
  header.payload_bytes = static_cast<std::uint32_t>(keys.remote_key.size());
  descriptor.remote_key = sealed_body(header, keys.remote_key);
  append(descriptor.remote_key, remote_key_checksum(descriptor, descriptor.remote_key));
  return descriptor;
}

result<region_keys> open_descriptor(const region_descriptor& descriptor) {
  const auto address = open_one("worker address", descriptor.worker_address, worker_address_magic);
  if (!address) return address.error();
  if (checksum{}.add(address->body).value() != address->checksum) {
    return malformed("worker address", "has a wrong checksum");
  }
  const auto key = open_one("remote key", descriptor.remote_key, remote_key_magic);
  if (!key) return key.error();
  if (remote_key_checksum(descriptor, key->body) != key->checksum) {
    return malformed("remote key", "has a checksum that does not match the descriptor");
  }
  return region_keys{key->header.nonce, key->body.subspan(sizeof(seal_header)),
                     address->body.subspan(sizeof(seal_header))};
}

}  // namespace yolk::transport
