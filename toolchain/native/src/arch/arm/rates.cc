#include "rates/loops.h"

namespace edge::rates {
namespace {

#define EDGE_REGISTER(x) "w"(x)
#define EDGE_WRITTEN(x) "+w"(x)

using Float4 = float __attribute__((vector_size(16)));

// Not fused: a Cortex-A9 has no other.
#define EDGE_MULTIPLY_ADD(i) asm volatile(".fpu neon\n\tvmla.f32 %q0, %q1, %q2" : "+w"(sum##i) : "w"(left), "w"(right));

EDGE_PRODUCTS(Neon, , Float4, EDGE_MULTIPLY_ADD)

constexpr Products kProducts[] = {{"neon", "float32", "neon", Operations(4, 1), Neon}};

EDGE_READ(ByNeon, , Float4, "w")

}  // namespace

std::span<const Products> ArchProducts() { return kProducts; }

Read ReadHere() { return ByNeon; }

}  // namespace edge::rates
