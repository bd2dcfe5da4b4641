#include "vta/gemm.h"

#include <algorithm>
#include <cstring>

namespace edge::vta {
namespace {

// Refuses where a field's largest value and the loops' last factors lead beyond a buffer.
void Reach(const Config& config, const Instruction& instruction, uint32_t index, Memory memory, uint32_t largest,
           uint32_t out, uint32_t in) {
  const uint64_t reached =
      largest + uint64_t{instruction.iter_out - 1} * out + uint64_t{instruction.iter_in - 1} * in;
  const uint32_t depth = Depth(config, memory);
  if (reached < depth) return;
  Refuse("bounds", instruction, index,
         "its last step reaches element " + std::to_string(reached) + " of " + MemoryName(memory) +
             ", which has " + std::to_string(depth));
}

// acc[out] += sum of inp[in] * wgt[out][in], wrapping; the weights as SpreadWeights lays them.
template <size_t kBlock>
inline void Multiply(int32_t* __restrict acc, const int8_t* __restrict inp, const int16_t* __restrict wgt) {
  uint32_t sums[kBlock];
  std::memcpy(sums, acc, sizeof sums);
  for (size_t pair = 0; pair < kBlock / 2; ++pair) {
    const int16_t first = inp[2 * pair], second = inp[2 * pair + 1];
    for (size_t out = 0; out < kBlock; ++out) {
      const int16_t* weights = wgt + (pair * kBlock + out) * 2;
      sums[out] += static_cast<uint32_t>(weights[0] * first + weights[1] * second);
    }
  }
  std::memcpy(acc, sums, sizeof sums);
}

void MultiplyAny(size_t block, int32_t* acc, const int8_t* inp, const int16_t* wgt) {
  const size_t group = block == 1 ? 1 : 2;
  for (size_t in = 0; in < block; ++in) {
    for (size_t out = 0; out < block; ++out) {
      const int32_t product = inp[in] * wgt[(in / group * block + out) * group + in % group];
      acc[out] = static_cast<int32_t>(static_cast<uint32_t>(acc[out]) + static_cast<uint32_t>(product));
    }
  }
}

}  // namespace

void SpreadWeights(const Config& config, const uint8_t* from, int16_t* to) {
  const size_t block = config.Block(), group = block == 1 ? 1 : 2;
  if (from == nullptr) {
    std::fill(to, to + block * block, int16_t{0});
    return;
  }
  for (size_t in = 0; in < block; in += group) {
    for (size_t out = 0; out < block; ++out) {
      for (size_t i = 0; i < group; ++i) *to++ = static_cast<int8_t>(from[out * block + in + i]);
    }
  }
}

std::vector<MicroOp> MicroOps(const Config& config, const Sram& sram, const Instruction& instruction,
                              uint32_t index) {
  std::vector<MicroOp> uops;
  if (instruction.Steps() == 0) return uops;
  if (instruction.uop_end > sram.uop.size()) {
    Refuse("bounds", instruction, index,
           "micro-ops up to " + std::to_string(instruction.uop_end) + " of " + std::to_string(sram.uop.size()));
  }
  uops.reserve(instruction.uop_end - instruction.uop_begin);
  MicroOp largest{};
  for (uint32_t i = instruction.uop_begin; i < instruction.uop_end; ++i) {
    uops.push_back(DecodeMicroOp(config, sram.uop[i]));
    largest.dst = std::max(largest.dst, uops.back().dst);
    largest.src = std::max(largest.src, uops.back().src);
    largest.wgt = std::max(largest.wgt, uops.back().wgt);
  }
  Reach(config, instruction, index, Memory::kAcc, largest.dst, instruction.dst_out, instruction.dst_in);
  const bool gemm = instruction.op == Op::kGemm;
  if (gemm ? instruction.reset : instruction.use_imm) return uops;  // the other operands are not looked at
  Reach(config, instruction, index, gemm ? Memory::kInp : Memory::kAcc, largest.src, instruction.src_out,
        instruction.src_in);
  if (gemm) {
    Reach(config, instruction, index, Memory::kWgt, largest.wgt, instruction.wgt_out, instruction.wgt_in);
  }
  return uops;
}

void Gemm(const Config& config, Sram& sram, const Instruction& instruction, uint32_t index) {
  const std::vector<MicroOp> uops = MicroOps(config, sram, instruction, index);
  const size_t lanes = config.Lanes(), block = config.Block(), taps = config.Taps();
  if (instruction.reset) {
    ForSteps(instruction, uops, [&](uint32_t dst, uint32_t, uint32_t) {
      KeepOut(config, sram, dst);
      std::memset(&sram.acc[dst * lanes], 0, lanes * sizeof(int32_t));
    });
    return;
  }
  int32_t* const acc = sram.acc.data();
  const int8_t* const inp = sram.inp.data();
  const int16_t* const wgt = sram.wgt.data();
  uint8_t* const follows = sram.follows.data();
  if (lanes == 16 && block == 16) {
    ForSteps(instruction, uops, [&](uint32_t dst, uint32_t src, uint32_t tile) {
      follows[dst] = 1;
      Multiply<16>(acc + dst * size_t{16}, inp + src * size_t{16}, wgt + tile * size_t{256});
    });
    return;
  }
  ForSteps(instruction, uops, [&](uint32_t dst, uint32_t src, uint32_t tile) {
    follows[dst] = 1;
    for (size_t row = 0; row < lanes; row += block) {
      MultiplyAny(block, acc + dst * lanes + row, inp + src * lanes + row, wgt + tile * taps);
    }
  });
}

}  // namespace edge::vta
