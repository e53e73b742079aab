@0xb1a0c3f0d5e7a106;
# Within the gateway: its broker, which owns the sockets, and its sessions, which own requests.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("yolk::messages::schema");

struct HttpRequest {
  # Broker -> session.
  connection @0 :UInt64;
  method @1 :Text;
  path @2 :Text;
  authorization @3 :Text;        # the header's value
  body @4 :Data;
  keepAlive @5 :Bool;
  minorVersion @6 :UInt8;        # of HTTP/1.x: a client of 1.0 understands no chunks
}

struct HttpOutput {
  # Session -> broker: bytes as they go on the wire.
  connection @0 :UInt64;
  bytes @1 :Data;
  last @2 :Bool;                 # the response is complete
  close @3 :Bool;                # with last: close the connection afterwards
}

struct HttpGone {
  # Broker -> session: the client left, or cannot take more.
  connection @0 :UInt64;
}
