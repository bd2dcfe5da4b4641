#include "rates/reading.h"

#include <algorithm>
#include <string>

#include "cpu.h"

#define EDGE_READ(NAME, TARGET, VECTOR, REGISTER)                        \
  TARGET void NAME(const char* from, size_t bytes) {                     \
    using vector = VECTOR;                                               \
    for (const char* end = from + bytes; from < end; from += kUnit) {    \
      _Pragma("GCC unroll 16") for (size_t i = 0; i < kUnit; i += sizeof(vector)) { \
        const vector read = *reinterpret_cast<const vector*>(from + i);  \
        asm volatile("" ::REGISTER(read));                               \
      }                                                                  \
    }                                                                    \
  }

namespace edge::rates {
namespace {

using Float4 = float __attribute__((vector_size(16)));

#if defined(__x86_64__)
using Float8 = float __attribute__((vector_size(32)));
using Float16 = float __attribute__((vector_size(64)));

EDGE_READ(BySse, , Float4, "x")
EDGE_READ(ByAvx, __attribute__((target("avx"))), Float8, "x")
EDGE_READ(ByAvx512, __attribute__((target("avx512f"))), Float16, "v")
#else
EDGE_READ(ByNeon, , Float4, "w")
#endif

}  // namespace

Read ReadHere() {
#if defined(__x86_64__)
  const std::vector<std::string> present = CpuFeatures();
  const auto has = [&](const char* feature) { return std::count(present.begin(), present.end(), feature) != 0; };
  return has("avx512f") ? ByAvx512 : has("avx") ? ByAvx : BySse;
#else
  return ByNeon;
#endif
}

}  // namespace edge::rates
