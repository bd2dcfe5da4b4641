// What the compute stage computes.
#pragma once

#include "vta/sram.h"

namespace edge::vta {

// An element of WGT, [out][in] in DRAM (nullptr: zeros), becomes 16 bits wide: [in / 2][out][2], so that a pair
// of activations is multiplied with one row; [in][out] where a block has one channel.
void SpreadWeights(const Config& config, const uint8_t* from, int16_t* to);

// Refuses an index outside a buffer; then nothing was computed.
void Gemm(const Config& config, Sram& sram, const Instruction& instruction, uint32_t index);
void RunAlu(const Config& config, Sram& sram, const Instruction& instruction, uint32_t index);

// The micro-ops of a GEMM or an ALU, decoded, after a look at the furthest elements that its steps reach.
std::vector<MicroOp> MicroOps(const Config& config, const Sram& sram, const Instruction& instruction,
                              uint32_t index);

// Calls step(dst, src, wgt) for each step, in order.
template <typename Step>
void ForSteps(const Instruction& instruction, const std::vector<MicroOp>& uops, const Step& step) {
  for (uint32_t o = 0; o < instruction.iter_out; ++o) {
    for (uint32_t i = 0; i < instruction.iter_in; ++i) {
      const uint32_t dst = o * instruction.dst_out + i * instruction.dst_in;
      const uint32_t src = o * instruction.src_out + i * instruction.src_in;
      const uint32_t wgt = o * instruction.wgt_out + i * instruction.wgt_in;
      for (const MicroOp& uop : uops) step(uop.dst + dst, uop.src + src, uop.wgt + wgt);
    }
  }
}

}  // namespace edge::vta
