// The loops that `edge-rt probe` measures, as macros: an architecture's rates.cc makes functions of them. It defines
// EDGE_REGISTER(x) and EDGE_WRITTEN(x), the constraints of an operand in a vector register that is read, or written too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rates/products.h"
#include "rates/reading.h"

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

// A function that reads memory by loads of the type VECTOR.
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

constexpr int kInstructions = 48;

// Operations of a round, of instructions that add so many products to each of so many sums.
constexpr double Operations(int sums, int depth) { return 2.0 * kInstructions * sums * depth; }

}  // namespace edge::rates
