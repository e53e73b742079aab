#include "actors/supervisor/tls_error_queue.hpp"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "core/invariant.hpp"

namespace {

/// OpenSSL's own function, behind the one of that name here.
template <class Function>
Function* original(const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  YOLK_INVARIANT(found != nullptr, name);
  return found;
}

}  // namespace

extern "C" {

int SSL_read(SSL* ssl, void* buf, int num) {
  static auto* const read = original<int(SSL*, void*, int)>("SSL_read");
  ERR_clear_error();
  return read(ssl, buf, num);
}

int SSL_write(SSL* ssl, const void* buf, int num) {
  static auto* const write = original<int(SSL*, const void*, int)>("SSL_write");
  ERR_clear_error();
  return write(ssl, buf, num);
}

int SSL_accept(SSL* ssl) {
  static auto* const accept = original<int(SSL*)>("SSL_accept");
  ERR_clear_error();
  return accept(ssl);
}

int SSL_connect(SSL* ssl) {
  static auto* const connect = original<int(SSL*)>("SSL_connect");
  ERR_clear_error();
  return connect(ssl);
}
}

namespace yolk::actors {

void keep_tls_failures_apart() {
  // A use that no optimiser takes away: what is called here is what CAF calls.
  YOLK_INVARIANT(&::SSL_read != nullptr);
}

}  // namespace yolk::actors
