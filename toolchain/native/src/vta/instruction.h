// Instructions as they are written (128 bits) and as they are understood.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "vta/config.h"

namespace edge::vta {

enum class Op : uint8_t { kLoad, kStore, kGemm, kFinish, kAlu };
enum class Memory : uint8_t { kUop, kWgt, kInp, kAcc, kOut, kAcc8 };
enum class Alu : uint8_t { kMin, kMax, kAdd, kShr, kMul };
enum Stage : uint8_t { kLoadStage, kComputeStage, kStoreStage };
constexpr int kStages = 3;

const char* StageName(int stage);
const char* MemoryName(Memory memory);

struct Instruction {
  Op op;
  Stage stage;
  bool pop_prev, pop_next, push_prev, push_next;
  bool stray;  // bits are set that must be zero

  // LOAD and STORE: elements, as DRAM is counted too.
  Memory memory;
  uint8_t y_pad_0, y_pad_1, x_pad_0, x_pad_1;
  uint32_t sram, dram, y_size, x_size, x_stride;

  // GEMM and ALU.
  bool reset, use_imm;
  Alu alu;
  int32_t imm;
  uint32_t uop_begin, uop_end, iter_out, iter_in;
  uint32_t dst_out, dst_in, src_out, src_in, wgt_out, wgt_in;

  bool IsMemory() const { return op == Op::kLoad || op == Op::kStore; }
  bool IsCompute() const { return op == Op::kGemm || op == Op::kAlu; }
  // Moves nothing; it is there for its tokens.
  bool IsNop() const { return IsMemory() && y_size == 0 && x_size == 0 && !Pads(); }
  bool Pads() const { return (y_pad_0 | y_pad_1 | x_pad_0 | x_pad_1) != 0; }
  uint32_t Rows() const { return y_pad_0 + y_size + y_pad_1; }
  uint32_t Columns() const { return x_pad_0 + x_size + x_pad_1; }
  uint64_t Steps() const;
  std::string Name() const;
};

struct MicroOp {
  uint32_t dst, src, wgt;
};

// Bytes of an element in DRAM.
uint32_t ElementBytes(const Config& config, Memory memory);
// Elements that a buffer holds.
uint32_t Depth(const Config& config, Memory memory);
MicroOp DecodeMicroOp(const Config& config, uint32_t word);
// Refuses what no implementation would understand, and a FINISH that is not the last.
std::vector<Instruction> Decode(const Config& config, const uint8_t* program, uint32_t count);
// "instruction 12 (LOAD INP of load)", for messages.
std::string Where(const Instruction& instruction, uint32_t index);
[[noreturn]] void Refuse(const char* rule, const Instruction& instruction, uint32_t index,
                         const std::string& why);

}  // namespace edge::vta
