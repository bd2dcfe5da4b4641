#include "rates/loops.h"

namespace edge::rates {
namespace {

// Registers by their numbers: without vectors in its target the compiler uses none of them.
#define EDGE_PRODUCT(i) "vfmacc.vf v" #i ", ft0, v4\n\t"
#define EDGE_ROUND                                                                                           \
  EDGE_PRODUCT(8) EDGE_PRODUCT(9) EDGE_PRODUCT(10) EDGE_PRODUCT(11) EDGE_PRODUCT(12) EDGE_PRODUCT(13)        \
  EDGE_PRODUCT(14) EDGE_PRODUCT(15) EDGE_PRODUCT(16) EDGE_PRODUCT(17) EDGE_PRODUCT(18) EDGE_PRODUCT(19)

void Rvv(int64_t rounds) {
  asm volatile(
      ".option push\n\t.option arch, +v\n\t"
      "vsetivli zero, 4, e32, m1, ta, ma\n"
      "1:\n\t" EDGE_ROUND EDGE_ROUND EDGE_ROUND EDGE_ROUND
      "addi %0, %0, -1\n\tbnez %0, 1b\n\t"
      ".option pop" : "+r"(rounds) : : "memory");
}

void ReadVectors(const char* from, size_t bytes) {
  asm volatile(
      ".option push\n\t.option arch, +v\n"
      "1:\n\tvsetvli t0, %1, e8, m8, ta, ma\n\t"
      "vle8.v v8, (%0)\n\tadd %0, %0, t0\n\tsub %1, %1, t0\n\tbnez %1, 1b\n\t"
      ".option pop" : "+r"(from), "+r"(bytes) : : "t0", "memory");
}

EDGE_READ(ReadWords, , uint64_t, "r")

constexpr Products kProducts[] = {{"rvv", "float32", "v", Operations(4, 1), Rvv}};

}  // namespace

std::span<const Products> ArchProducts() { return kProducts; }

Read ReadHere() { return ProductsHere().empty() ? ReadWords : ReadVectors; }

}  // namespace edge::rates
