#include "actors/supervisor/cluster_identity.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace yolk::actors {

namespace {

constexpr std::size_t key_bytes = 32;
// OWASP's parameters for scrypt: some 60 ms and 32 MiB a guess.
constexpr std::uint64_t scrypt_cost = 1 << 15;
constexpr std::uint64_t scrypt_block_size = 8;
constexpr std::uint64_t scrypt_memory_bytes = std::uint64_t{64} << 20;
constexpr std::string_view salt = "yolk cluster identity 1";

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;
using certificate_ptr = std::unique_ptr<X509, freed_by<X509_free>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;
using file_ptr = std::unique_ptr<std::FILE, freed_by<std::fclose>>;

key_ptr key_from(std::string_view secret) {
  std::array<unsigned char, key_bytes> seed{};
  if (EVP_PBE_scrypt(secret.data(), secret.size(), reinterpret_cast<const unsigned char*>(salt.data()),
                     salt.size(), scrypt_cost, scrypt_block_size, 1, scrypt_memory_bytes, seed.data(),
                     seed.size()) != 1)
    return nullptr;
  return key_ptr(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
}

/// No clock and no random number goes into it, so every node makes the same one.
certificate_ptr certificate_for(EVP_PKEY* key) {
  certificate_ptr made(X509_new());
  auto* certificate = made.get();
  auto* name = X509_get_subject_name(certificate);
  const extension_ptr authority(
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE"));
  const bool done =
      X509_set_version(certificate, 2) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
      ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), "20200101000000Z") == 1 &&
      ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "99991231235959Z") == 1 &&
      X509_set_pubkey(certificate, key) == 1 &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("yolk cluster"), -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate, name) == 1 && authority &&
      X509_add_ext(certificate, authority.get(), -1) == 1 && X509_sign(certificate, key, nullptr) > 0;
  return done ? std::move(made) : nullptr;
}

/// A file in memory with what `write` put into it: its descriptor, or -1 and errno.
template <class Write>
int file_in_memory(const char* name, Write&& write) {
  const int descriptor = ::memfd_create(name, MFD_CLOEXEC);
  if (descriptor < 0) return -1;
  const file_ptr file(::fdopen(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0), "w"));
  if (file && write(file.get()) == 1 && std::fflush(file.get()) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

std::string name_of(int descriptor) {
  return "/proc/self/fd/" + std::to_string(descriptor);
}

core::failure<node_errc> failed(const std::string& what) {
  return core::failure<node_errc>{node_errc::no_identity, "cluster identity: " + what};
}

}  // namespace

node_result<std::shared_ptr<const cluster_identity>> cluster_identity::derive(std::string_view secret) {
  if (secret.size() < min_secret_bytes)
    return failed("the secret has " + std::to_string(secret.size()) + " bytes, at least " +
                  std::to_string(min_secret_bytes) + " are needed");
  const auto key = key_from(secret);
  const auto certificate = key ? certificate_for(key.get()) : nullptr;
  if (!certificate) return failed("OpenSSL cannot make an Ed25519 certificate");
  std::shared_ptr<cluster_identity> made(new cluster_identity);
  made->certificate_ = file_in_memory(
      "yolk-certificate", [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
  made->key_ = file_in_memory("yolk-key", [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  if (made->certificate_ < 0 || made->key_ < 0)
    return failed(std::string("no file in memory: ") + std::strerror(errno));
  return std::shared_ptr<const cluster_identity>(std::move(made));
}

cluster_identity::~cluster_identity() {
  for (const int descriptor : {certificate_, key_})
    if (descriptor >= 0) ::close(descriptor);
}

std::string cluster_identity::certificate_file() const {
  return name_of(certificate_);
}
std::string cluster_identity::key_file() const {
  return name_of(key_);
}

}  // namespace yolk::actors
