// Multiply-accumulates of this machine, in registers: as fast as its cores can be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace edge::rates {

struct Products {
  const char* name;   // of the vectors or of the instruction
  const char* type;   // of the factors: "float32" or "int8"
  const char* needs;  // features, with commas between them; "": every CPU of this machine has it
  double operations;  // of a round: two for each multiply-accumulate
  void (*run)(int64_t rounds);
};

// Those of this architecture: its folder in src/arch has them.
std::span<const Products> ArchProducts();
// Those of them that this CPU has.
std::vector<Products> ProductsHere();

}  // namespace edge::rates
