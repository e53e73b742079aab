# Third-party libraries, each for the one room that includes its headers (docs/dependencies.md says why each was taken).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# CAF (messages, actors). Debian's package has no CMake config.
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
foreach(module core io openssl)
  find_library(CAF_${module}_LIBRARY caf_${module} REQUIRED)
  add_library(CAF::${module} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(CAF::${module} PROPERTIES
    IMPORTED_LOCATION ${CAF_${module}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
endforeach()
target_link_libraries(CAF::core INTERFACE Threads::Threads)
target_link_libraries(CAF::io INTERFACE CAF::core)

# OpenSSL (actors): who belongs to a cluster.
find_package(OpenSSL REQUIRED)
target_link_libraries(CAF::openssl INTERFACE CAF::io OpenSSL::SSL)

# Cap'n Proto (messages).
find_package(CapnProto CONFIG REQUIRED)

# UCX (transport).
find_path(UCX_INCLUDE_DIR ucp/api/ucp.h REQUIRED)
find_library(UCP_LIBRARY ucp REQUIRED)
find_library(UCS_LIBRARY ucs REQUIRED)
add_library(ucx_ucp INTERFACE)
target_include_directories(ucx_ucp SYSTEM INTERFACE ${UCX_INCLUDE_DIR})
target_link_libraries(ucx_ucp INTERFACE ${UCP_LIBRARY} ${UCS_LIBRARY})

# libcurl (actors: the lease in Kubernetes).
find_package(CURL REQUIRED)

# prometheus-cpp (actors).
find_package(prometheus-cpp CONFIG REQUIRED)

# JSON (http, model), hashing and io_uring (kvcache), Unicode (model), command line (cli).
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

if(YOLK_TESTS)
  find_package(doctest CONFIG REQUIRED)
endif()
if(YOLK_BENCHES)
  find_package(benchmark CONFIG REQUIRED)
endif()
