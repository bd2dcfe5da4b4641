// Rules that an instruction keeps or breaks by itself. Which implementation minds is said where it is known.
#include "vta/strict.h"

namespace edge::vta {
namespace {

constexpr int kLeastShift = -16, kLargestShift = 15;

void CheckMemory(const Config& config, const Instruction& i, uint32_t index) {
  if (i.memory == Memory::kAcc8) Refuse("memory", i, index, "ACC_8BIT is loaded by the functional model alone");
  if ((i.y_size == 0) != (i.x_size == 0) || (i.y_size == 0 && i.Pads())) {
    Refuse("trip-count", i, index,
           "sizes of " + std::to_string(i.y_size) + " x " + std::to_string(i.x_size) +
               (i.Pads() ? " with padding" : "") + ": either all are zero (a NOP) or none");
  }
  if (!i.Pads()) return;
  if (i.op == Op::kStore) Refuse("padding", i, index, "STORE has no padding");
  if (i.memory == Memory::kUop || i.memory == Memory::kWgt) {
    Refuse("padding", i, index, std::string("padding of ") + MemoryName(i.memory) + " is ignored by the hardware");
  }
  if (i.memory == Memory::kAcc && config.isa_rev == 1) {
    Refuse("padding", i, index, "padding of ACC is ignored by hardware of isa_rev 1");
  }
}

void CheckLoops(const Instruction& i, uint32_t index) {
  if (i.iter_out == 0 || i.iter_in == 0) {
    Refuse("trip-count", i, index,
           "loops of " + std::to_string(i.iter_out) + " x " + std::to_string(i.iter_in) +
               " turns: some implementations do not stop at none");
  }
  if (i.uop_begin >= i.uop_end) {
    Refuse("trip-count", i, index,
           "micro-ops " + std::to_string(i.uop_begin) + " to " + std::to_string(i.uop_end) +
               " are none: some implementations do not stop there");
  }
  if (i.op != Op::kAlu) return;
  if (i.alu == Alu::kMul) Refuse("alu", i, index, "MUL is there in the functional model alone");
  if (!i.use_imm) return;
  if (i.alu == Alu::kShr && (i.imm < kLeastShift || i.imm > kLargestShift)) {
    Refuse("shift", i, index,
           "a shift by " + std::to_string(i.imm) + "; the hardware keeps 5 bits of it: from " +
               std::to_string(kLeastShift) + " to " + std::to_string(kLargestShift));
  }
  if (i.src_out != i.dst_out || i.src_in != i.dst_in) {
    Refuse("immediate", i, index,
           "with an immediate the factors of src and dst must be the same: implementations read either");
  }
}

}  // namespace

void CheckPortable(const Config& config, const Instruction& i, uint32_t index) {
  if (i.stray) Refuse("encoding", i, index, "bits are set that must be zero");
  if (i.IsMemory()) CheckMemory(config, i, index);
  if (i.memory == Memory::kUop && i.op == Op::kLoad && i.y_size > 1) {
    Refuse("memory", i, index,
           std::to_string(i.y_size) + " rows of micro-ops: the hardware loads the first alone");
  }
  if (i.IsCompute()) CheckLoops(i, index);
  if (i.op == Op::kFinish && (i.pop_prev || i.pop_next || i.push_prev || i.push_next)) {
    Refuse("finish", i, index, "FINISH has flags: let a NOP before it wait for tokens");
  }
}

}  // namespace edge::vta
