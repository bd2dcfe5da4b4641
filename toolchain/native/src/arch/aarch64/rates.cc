#include "rates/loops.h"

namespace edge::rates {
namespace {

#define EDGE_REGISTER(x) "w"(x)
#define EDGE_WRITTEN(x) "+w"(x)

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int __attribute__((vector_size(16)));

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

EDGE_READ(ByNeon, , Float4, "w")

}  // namespace

std::span<const Products> ArchProducts() { return kProducts; }

Read ReadHere() { return ByNeon; }

}  // namespace edge::rates
