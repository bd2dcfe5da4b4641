#include "rates/loops.h"

#include <algorithm>
#include <string>
#include <vector>

#include "arch/arch.h"

namespace edge::rates {
namespace {

#define EDGE_REGISTER(x) "v"(x)
#define EDGE_WRITTEN(x) "+v"(x)
#define EDGE_FMA(i) asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum##i) : "v"(left), "v"(right));
#define EDGE_VNNI(i) asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum##i) : "v"(left), "v"(right));
#define EDGE_VEX_VNNI(i) asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum##i) : "x"(left), "x"(right));

using Float8 = float __attribute__((vector_size(32)));
using Float16 = float __attribute__((vector_size(64)));
using Int8 = int __attribute__((vector_size(32)));
using Int16 = int __attribute__((vector_size(64)));

EDGE_PRODUCTS(Avx512, __attribute__((target("avx512f,avx512vl"))), Float16, EDGE_FMA)
EDGE_PRODUCTS(Avx512Vnni, __attribute__((target("avx512f,avx512vl,avx512vnni"))), Int16, EDGE_VNNI)

#undef EDGE_REGISTER
#undef EDGE_WRITTEN
#define EDGE_REGISTER(x) "x"(x)
#define EDGE_WRITTEN(x) "+x"(x)
// Without fused ones a product is two instructions, and a register for what lies between them.
#define EDGE_MULTIPLY_ADD(i)                                        \
  asm volatile("movaps %1, %%xmm15\n\tmulps %2, %%xmm15\n\taddps %%xmm15, %0" \
               : "+x"(sum##i) : "x"(left), "x"(right) : "xmm15");
#define EDGE_FMA_OF_AVX2(i) asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum##i) : "x"(left), "x"(right));

using Float4 = float __attribute__((vector_size(16)));

EDGE_PRODUCTS(Sse, , Float4, EDGE_MULTIPLY_ADD)
EDGE_PRODUCTS(Avx2, __attribute__((target("avx2,fma"))), Float8, EDGE_FMA_OF_AVX2)
EDGE_PRODUCTS(AvxVnni, __attribute__((target("avx2,avxvnni"))), Int8, EDGE_VEX_VNNI)

constexpr Products kProducts[] = {
    {"sse", "float32", "", Operations(4, 1), Sse},
    {"avx2", "float32", "avx2,fma", Operations(8, 1), Avx2},
    {"avx512", "float32", "avx512f,avx512vl", Operations(16, 1), Avx512},
    {"avx_vnni", "int8", "avx2,avx_vnni", Operations(8, 4), AvxVnni},
    {"avx512_vnni", "int8", "avx512f,avx512vl,avx512_vnni", Operations(16, 4), Avx512Vnni},
};

EDGE_READ(BySse, , Float4, "x")
EDGE_READ(ByAvx, __attribute__((target("avx"))), Float8, "x")
EDGE_READ(ByAvx512, __attribute__((target("avx512f"))), Float16, "v")

}  // namespace

std::span<const Products> ArchProducts() { return kProducts; }

Read ReadHere() {
  const std::vector<std::string> present = arch::CpuFeatures();
  const auto has = [&](const char* feature) { return std::count(present.begin(), present.end(), feature) != 0; };
  return has("avx512f") ? ByAvx512 : has("avx") ? ByAvx : BySse;
}

}  // namespace edge::rates
