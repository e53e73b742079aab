#pragma once

namespace yolk::actors {

/// Makes one TLS connection's failure no other connection's. OpenSSL wants a thread's error queue empty
/// before each operation (SSL_get_error(3)); CAF 0.17.6 does not see to that, so after one stranger's failed
/// handshake the next read of any connection, which merely found no bytes, is taken for fatal and closes it.
/// The program therefore puts its own SSL_read and the like before OpenSSL's, which empty the queue first.
/// To be called once, so that they are linked; they work from the program's start.
void keep_tls_failures_apart();

}  // namespace yolk::actors
