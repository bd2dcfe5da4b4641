// What the compiler's checks call.
#pragma once
#include <stdio.h>

#define EDGE_CHECK(declaration) extern "C" __attribute__((visibility("hidden"), no_sanitize("all"), used)) declaration

namespace edge {

enum : int { kIllegalAddress = 700, kMisaligned = 716, kLaunchFailed = 719 };  // CUresult

__attribute__((no_sanitize("all"))) inline void Check(const void* at, size_t bytes, bool write) {
  if (static_cast<size_t>(static_cast<const char*>(at) - now->stack) >= now->stack_bytes) {
    services->access(at, bytes, write, false);
  }
}

}  // namespace edge

#define EDGE_ACCESS(bytes)                                                                             \
  EDGE_CHECK(void __tsan_read##bytes(void* at)) { edge::Check(at, bytes, false); }                     \
  EDGE_CHECK(void __tsan_write##bytes(void* at)) { edge::Check(at, bytes, true); }                     \
  EDGE_CHECK(void __tsan_unaligned_read##bytes(void* at)) { edge::Check(at, bytes, false); }           \
  EDGE_CHECK(void __tsan_unaligned_write##bytes(void* at)) { edge::Check(at, bytes, true); }           \
  EDGE_CHECK(void __tsan_read_write##bytes(void* at)) {                                                \
    edge::Check(at, bytes, false);                                                                     \
    edge::Check(at, bytes, true);                                                                      \
  }                                                                                                    \
  EDGE_CHECK(void __tsan_unaligned_read_write##bytes(void* at)) {                                      \
    edge::Check(at, bytes, false);                                                                     \
    edge::Check(at, bytes, true);                                                                      \
  }
EDGE_ACCESS(1)
EDGE_ACCESS(2)
EDGE_ACCESS(4)
EDGE_ACCESS(8)
EDGE_ACCESS(16)
#undef EDGE_ACCESS

EDGE_CHECK(void __tsan_init()) {}
EDGE_CHECK(void __tsan_func_entry(void*)) {}
EDGE_CHECK(void __tsan_func_exit()) {}
EDGE_CHECK(void* __tsan_memcpy(void* to, const void* from, size_t bytes)) {
  edge::Check(from, bytes, false);
  edge::Check(to, bytes, true);
  return memcpy(to, from, bytes);
}
EDGE_CHECK(void* __tsan_memmove(void* to, const void* from, size_t bytes)) {
  edge::Check(from, bytes, false);
  edge::Check(to, bytes, true);
  return memmove(to, from, bytes);
}
EDGE_CHECK(void* __tsan_memset(void* to, int value, size_t bytes)) {
  edge::Check(to, bytes, true);
  return memset(to, value, bytes);
}

// What clang hands over about a place that failed (compiler-rt/lib/ubsan/ubsan_handlers.h).
namespace edge {
struct Place {
  const char* file;
  uint32_t line, column;
};
struct Type {
  uint16_t kind, info;
  char name[1];
};
struct OutOfBounds {
  Place at;
  const Type *array, *index;
};
struct Mismatch {
  Place at;
  const Type* type;
  uint8_t log_alignment, kind;
};
}  // namespace edge

EDGE_CHECK(void __ubsan_handle_out_of_bounds_abort(edge::OutOfBounds* what, size_t index)) {
  char words[200];
  snprintf(words, sizeof(words), "line %u: index %lld of an array of type %s", what->at.line,
           static_cast<long long>(index), what->array->name);
  edge::services->fail(edge::kIllegalAddress, words);
}
EDGE_CHECK(void __ubsan_handle_type_mismatch_v1_abort(edge::Mismatch* what, size_t at)) {
  char words[200];
  snprintf(words, sizeof(words), "line %u: address 0x%llx of a value of type %s, which needs one aligned to %u bytes",
           what->at.line, static_cast<unsigned long long>(at), what->type->name, 1u << what->log_alignment);
  edge::services->fail(edge::kMisaligned, words);
}
EDGE_CHECK(void __ubsan_handle_alignment_assumption_abort(void*, size_t, size_t, size_t)) {
  edge::services->fail(edge::kMisaligned, "an address is not aligned as the code says");
}
EDGE_CHECK(void __ubsan_handle_divrem_overflow_abort(edge::Place* at, size_t, size_t)) {
  char words[80];
  snprintf(words, sizeof(words), "line %u: an integer is divided by zero", at->line);
  edge::services->fail(edge::kLaunchFailed, words);
}
