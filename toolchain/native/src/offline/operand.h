// An operand of a candidate: stored or drawn, and packed as the candidate reads it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "npy.h"

namespace edge::offline {

inline constexpr size_t kMostAxes = 16;

struct Operand {
  std::string member;  // its digest; empty: it is drawn
  Array drawn;         // without data: float32 or float16, and its shape
  uint64_t seed;
  int exponent;        // of two, by which the numbers are larger than those of deviation 1
  bool edges;          // a quarter of the numbers are zeros, one in 64 is large
  std::string steps;   // by which it is packed
};

// Packs an array; without data, its shape alone. The steps are those of numpy: `p` pads with zeros, a number before and one
// behind each axis, `r` reshapes, `t` transposes: `p0x0x0x4,r8x2x32,t1x0x2`. `m` makes L X R^T of each matrix X of floats in
// the last two axes: rows of L and of R, then numerator and denominator of each entry of both. Throws EDGE_USAGE for what
// cannot be done, and for more than 1 GiB in between. Returns the bytes of the array.
int64_t Pack(const std::string& steps, Array* array);

// `member`: the path of a stored one's file. What is drawn is what toolchain/tasks/draws.py draws.
Array Made(const Operand& operand, const std::string& member);

}  // namespace edge::offline
