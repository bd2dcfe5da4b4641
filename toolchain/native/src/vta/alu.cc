#include <algorithm>

#include "vta/gemm.h"

namespace edge::vta {
namespace {

// Right by `amount`, toward minus infinity; left if it is negative. Any amount: what is shifted out is gone.
int32_t Shift(int32_t value, int32_t amount) {
  if (amount >= 0) return value >> std::min(amount, 31);
  if (amount <= -32) return 0;
  return static_cast<int32_t>(static_cast<uint32_t>(value) << -amount);
}

template <typename Function>
void Apply(const Config& config, Sram& sram, const Instruction& instruction, const std::vector<MicroOp>& uops,
           const Function& function) {
  const size_t lanes = config.Lanes();
  int32_t* const acc = sram.acc.data();
  ForSteps(instruction, uops, [&](uint32_t dst, uint32_t src, uint32_t) {
    sram.follows[dst] = 1;
    int32_t* const x = acc + dst * lanes;
    if (instruction.use_imm) {
      for (size_t i = 0; i < lanes; ++i) x[i] = function(x[i], instruction.imm);
    } else {
      const int32_t* const y = acc + src * lanes;
      for (size_t i = 0; i < lanes; ++i) x[i] = function(x[i], y[i]);
    }
  });
}

}  // namespace

void RunAlu(const Config& config, Sram& sram, const Instruction& instruction, uint32_t index) {
  const std::vector<MicroOp> uops = MicroOps(config, sram, instruction, index);
  const auto apply = [&](const auto& function) { Apply(config, sram, instruction, uops, function); };
  switch (instruction.alu) {
    case Alu::kMin:
      return apply([](int32_t x, int32_t y) { return std::min(x, y); });
    case Alu::kMax:
      return apply([](int32_t x, int32_t y) { return std::max(x, y); });
    case Alu::kAdd:
      return apply([](int32_t x, int32_t y) {
        return static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
      });
    case Alu::kShr:
      return apply(Shift);
    case Alu::kMul:
      return apply([](int32_t x, int32_t y) {
        return static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y));
      });
  }
}

}  // namespace edge::vta
