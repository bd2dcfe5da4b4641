# Of our own sources. They are errors where tests compile, not for users, whose compiler may know other warnings.
set(WARNINGS -Wall -Wextra -Wshadow)
if(DEFINED ENV{EDGE_WARNINGS_ARE_ERRORS})
  list(APPEND WARNINGS -Werror)
endif()

# What decides whether a board installs a release: src/field with what it uses, and libsodium. None of it needs TVM, so
# tests compile it in seconds (tests/field/program).
set(FIELD_SOURCES
  field/admit.cc field/base64.cc field/compare.cc field/envelope.cc field/members.cc field/names.cc
  field/statement.cc field/trust.cc field/version.cc difference.cc file.cc folder.cc json.cc npy.cc numbers.cc sha256.cc text.cc)
list(TRANSFORM FIELD_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/src/)

# What installs it, but for field/compute.cc, which needs TVM (tests/field/installer).
set(INSTALL_SOURCES
  field/commands.cc field/disk.cc field/health.cc field/install.cc field/journal.cc field/newest.cc field/outcome.cc field/parts.cc
  field/place.cc field/policy.cc field/prune.cc field/recover.cc field/request.cc field/selftest.cc field/state.cc
  field/status.cc field/stream.cc field/trusted.cc field/turn.cc field/unpack.cc apart.cc child.cc memory.cc
  options.cc)
list(TRANSFORM INSTALL_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/src/)

# The seven files that check Ed25519 and compute SHA-256, and what they need (docs/decisions/0068-libsodium.md).
set(SODIUM ${CMAKE_CURRENT_LIST_DIR}/libsodium)
add_library(sodium OBJECT
  ${SODIUM}/crypto_core/ed25519/ref10/ed25519_ref10.c ${SODIUM}/crypto_hash/sha256/cp/hash_sha256_cp.c
  ${SODIUM}/crypto_hash/sha512/cp/hash_sha512_cp.c ${SODIUM}/crypto_sign/ed25519/ref10/open.c
  ${SODIUM}/crypto_sign/ed25519/ref10/sign.c ${SODIUM}/crypto_verify/verify.c ${SODIUM}/sodium/utils.c
  ${CMAKE_CURRENT_LIST_DIR}/src/sodium.c)
target_include_directories(sodium BEFORE PRIVATE ${SODIUM}/include/sodium ${SODIUM}/include)
# In place of its configure, which would find the same on every Linux.
target_compile_definitions(sodium PRIVATE
  CONFIGURED=1 _GNU_SOURCE=1 HAVE_GCC_MEMORY_FENCES=1 HAVE_INLINE_ASM=1 SODIUM_STATIC=1)
if(NOT ZIG_TARGET MATCHES "^arm")
  target_compile_definitions(sodium PRIVATE HAVE_TI_MODE=1)  # there are numbers of 128 bits
endif()
# Its headers have functions that only some of its files call.
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/src/sodium.c PROPERTIES COMPILE_OPTIONS "${WARNINGS};-Wno-unused-function")
