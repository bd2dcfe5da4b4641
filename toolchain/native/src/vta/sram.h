// The buffers on the chip, and the memory beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "vta/instruction.h"

namespace edge::vta {

// Physical memory that a program may touch, and nothing else: `data[0]` lies at address `base`.
struct Arena {
  uint8_t* data;
  uint32_t bytes;
  uint32_t base;
};

struct Sram {
  explicit Sram(const Config& config);
  // Zeros everywhere: what one run left is nothing that the next may build on.
  void Clear();

  std::vector<uint32_t> uop;
  std::vector<int8_t> inp;
  // As the multiplication wants it: gemm.h.
  std::vector<int16_t> wgt;
  std::vector<int32_t> acc;
  std::vector<int8_t> out;
  // OUT[i] is the low bytes of ACC[i] still: it is written when somebody asks for it.
  std::vector<uint8_t> follows;
};

// Before ACC[element] changes by other means than a GEMM or an ALU.
void KeepOut(const Config& config, Sram& sram, uint32_t element);

// Refuses a block that lies outside its buffer or the arena; then nothing was moved.
void Load(const Config& config, Sram& sram, const Arena& arena, const Instruction& instruction, uint32_t index);
void Store(const Config& config, Sram& sram, const Arena& arena, const Instruction& instruction, uint32_t index);
// The bytes [first, last) of the arena that row `y` of a block lies in.
void RowInArena(const Config& config, const Arena& arena, const Instruction& instruction, uint32_t y,
                uint64_t* first, uint64_t* last);
// What Load and Store check, alone.
void CheckBlock(const Config& config, const Arena& arena, const Instruction& instruction, uint32_t index);

}  // namespace edge::vta
