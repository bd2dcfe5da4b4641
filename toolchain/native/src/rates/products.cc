#include "rates/products.h"

#include <algorithm>
#include <string>

#include "cpu.h"
#include "text.h"

// Twelve accumulators hide the latency of every core that has one: four cycles on two units are eight (x86, Cortex-A76),
// and an in-order core's seven on one unit are fewer. Two more registers hold the factors. An instruction of its own
// text cannot be left out, moved together or made into another one by a compiler.
#define EDGE_TWELVE(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7) op(8) op(9) op(10) op(11)
#define EDGE_FOUR_TIMES(op) EDGE_TWELVE(op) EDGE_TWELVE(op) EDGE_TWELVE(op) EDGE_TWELVE(op)
#define EDGE_DECLARE(i) vector sum##i = zero;
#define EDGE_USE(i) asm volatile("" ::EDGE_REGISTER(sum##i));

// A function that runs the instruction OP 48 times a round. `vector` is the type of a register.
#define EDGE_PRODUCTS(NAME, TARGET, VECTOR, OP)              \
  TARGET void NAME(int64_t rounds) {                         \
    using vector = VECTOR;                                   \
    vector zero = {}, left = {}, right = {};                 \
    asm volatile("" : EDGE_WRITTEN(zero), EDGE_WRITTEN(left), EDGE_WRITTEN(right)); \
    EDGE_TWELVE(EDGE_DECLARE)                                \
    for (int64_t round = 0; round < rounds; ++round) {       \
      EDGE_FOUR_TIMES(OP)                                    \
    }                                                        \
    EDGE_TWELVE(EDGE_USE)                                    \
  }

namespace edge::rates {
namespace {

constexpr int kInstructions = 48;

// Operations of a round, of instructions that add so many products to each of so many sums.
constexpr double Operations(int sums, int depth) { return 2.0 * kInstructions * sums * depth; }

#if defined(__x86_64__)

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

#else

#define EDGE_REGISTER(x) "w"(x)
#define EDGE_WRITTEN(x) "+w"(x)

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int __attribute__((vector_size(16)));

#if defined(__aarch64__)
#define EDGE_BY_LANE(i) asm volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(sum##i) : "w"(left), "w"(right));
#define EDGE_DOT(i) asm volatile(".arch_extension dotprod\n\tsdot %0.4s, %1.16b, %2.4b[0]" : "+w"(sum##i) : "w"(left), "w"(right));
#define EDGE_MATRIX(i) asm volatile(".arch_extension i8mm\n\tsmmla %0.4s, %1.16b, %2.16b" : "+w"(sum##i) : "w"(left), "w"(right));

EDGE_PRODUCTS(Neon, , Float4, EDGE_BY_LANE)
EDGE_PRODUCTS(DotProduct, , Int4, EDGE_DOT)
EDGE_PRODUCTS(MatrixProduct, , Int4, EDGE_MATRIX)

constexpr Products kProducts[] = {
    {"neon", "float32", "asimd", Operations(4, 1), Neon},
    {"asimddp", "int8", "asimddp", Operations(4, 4), DotProduct},
    {"i8mm", "int8", "i8mm", Operations(4, 8), MatrixProduct},
};
#else
// Not fused: a Cortex-A9 has no other.
#define EDGE_MULTIPLY_ADD(i) asm volatile(".fpu neon\n\tvmla.f32 %q0, %q1, %q2" : "+w"(sum##i) : "w"(left), "w"(right));

EDGE_PRODUCTS(Neon, , Float4, EDGE_MULTIPLY_ADD)

constexpr Products kProducts[] = {{"neon", "float32", "neon", Operations(4, 1), Neon}};
#endif
#endif

}  // namespace

std::vector<Products> ProductsHere() {
  const std::vector<std::string> present = CpuFeatures();
  std::vector<Products> found;
  for (const Products& each : kProducts) {
    const std::vector<std::string> needs = Split(each.needs, ',');
    const bool there = std::all_of(needs.begin(), needs.end(), [&](const std::string& feature) {
      return std::count(present.begin(), present.end(), feature) != 0;
    });
    if (there) found.push_back(each);
  }
  return found;
}

}  // namespace edge::rates
