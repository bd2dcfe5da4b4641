// What a VTA is made of and what its cycles are guessed from: both come with each request.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace edge::vta {

constexpr uint32_t kWholeProgram = UINT32_MAX;

// Why a program cannot be run, or is not portable. `rule` is one word that programs may compare.
struct Refusal : std::runtime_error {
  Refusal(std::string broken, const std::string& message, uint32_t at = kWholeProgram)
      : std::runtime_error(message), rule(std::move(broken)), instruction(at) {}
  std::string rule;
  uint32_t instruction;
};

// Sizes as logarithms of 2. Widths are fixed: 8 bits for INP, WGT and OUT, 32 for ACC.
struct Config {
  uint32_t isa_rev;
  uint32_t log_batch, log_block;
  uint32_t log_uop, log_inp, log_wgt, log_acc;  // bytes of the buffers

  uint32_t Batch() const { return 1u << log_batch; }
  uint32_t Block() const { return 1u << log_block; }
  // int8 values of an element of INP and OUT, int32 values of one of ACC.
  uint32_t Lanes() const { return Batch() * Block(); }
  uint32_t Taps() const { return Block() * Block(); }  // int8 values of an element of WGT
  uint32_t UopBits() const { return log_uop - 2; }
  uint32_t InpBits() const { return log_inp - log_batch - log_block; }
  uint32_t WgtBits() const { return log_wgt - 2 * log_block; }
  uint32_t AccBits() const { return log_acc - 2 - log_batch - log_block; }

  // Refuses sizes for which instructions and micro-ops have no room.
  void Check() const;
};

// The cycle model: docs beside toolchain/vta say where the constants are from. Cycles, unless said otherwise.
struct Model {
  uint32_t version;  // only told again
  uint32_t fetch;    // for each instruction
  uint32_t overhead;
  uint32_t dma_latency;  // for each row
  uint32_t dma_bytes;    // in a cycle
  uint32_t gemm_overhead, gemm_step;
  uint32_t alu_overhead, alu_step;
};

struct Limits {
  uint32_t hazard;  // steps between two uses of an ACC element
  uint32_t queue;   // instructions that a stage's queue holds
  uint32_t tokens;  // that may wait in one queue
  uint32_t steps;   // of a whole program; what bounds the time that it takes
};

}  // namespace edge::vta
