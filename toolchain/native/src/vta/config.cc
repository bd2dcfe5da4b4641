#include "vta/config.h"

namespace edge::vta {
namespace {

constexpr uint32_t kLargestBuffer = 24;  // log2 of bytes

void Between(const char* name, uint32_t value, uint32_t least, uint32_t most) {
  if (value >= least && value <= most) return;
  throw Refusal("configuration", std::string(name) + " is " + std::to_string(value) + ", not from " +
                                     std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

void Config::Check() const {
  Between("isa_rev", isa_rev, 1, 2);
  Between("log_batch", log_batch, 0, 8);
  Between("log_block", log_block, 0, 8);
  // An element at least; no index is longer than sram_base.
  Between("log_uop_buffer", log_uop, 2, 15);
  Between("log_inp_buffer", log_inp, log_batch + log_block, kLargestBuffer);
  Between("log_wgt_buffer", log_wgt, 2 * log_block, kLargestBuffer);
  Between("log_acc_buffer", log_acc, 2 + log_batch + log_block, kLargestBuffer);
  Between("bits of an INP index", InpBits(), 0, 16);
  Between("bits of a WGT index", WgtBits(), 0, 16);
  Between("bits of an ACC index", AccBits(), 0, 16);
  Between("bits of a micro-op", AccBits() + InpBits() + WgtBits(), 0, 32);
  Between("bits of an ALU instruction's second word", 20 + 4 * AccBits(), 0, 64);
  Between("bits of a GEMM instruction's second word", 2 * (AccBits() + InpBits() + WgtBits()), 0, 64);
}

}  // namespace edge::vta
