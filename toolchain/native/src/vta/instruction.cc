#include "vta/instruction.h"

#include <cstring>

namespace edge::vta {
namespace {

// Takes fields from the lowest bit on. None crosses the border of the two words.
class Bits {
 public:
  explicit Bits(uint64_t word) : word_(word) {}
  uint32_t Take(uint32_t count) {
    const uint64_t value = count == 0 ? 0 : word_ & (~uint64_t{0} >> (64 - count));
    word_ = count == 64 ? 0 : word_ >> count;
    return static_cast<uint32_t>(value);
  }
  bool Flag() { return Take(1) != 0; }
  bool Rest() const { return word_ != 0; }

 private:
  uint64_t word_;
};

void TakeMemory(const Config& config, Bits& low, Bits& high, Instruction& out, uint32_t index) {
  const uint32_t type = low.Take(config.isa_rev == 1 ? 2 : 3);
  out.memory = static_cast<Memory>(type);
  out.sram = low.Take(16);
  out.dram = low.Take(32);
  out.y_size = high.Take(16);
  out.x_size = high.Take(16);
  out.x_stride = high.Take(16);
  out.y_pad_0 = static_cast<uint8_t>(high.Take(4));
  out.y_pad_1 = static_cast<uint8_t>(high.Take(4));
  out.x_pad_0 = static_cast<uint8_t>(high.Take(4));
  out.x_pad_1 = static_cast<uint8_t>(high.Take(4));
  out.stray = low.Rest();
  if (out.op == Op::kStore) {
    out.stage = kStoreStage;
    // Hardware does not look at it; in revision 1 there is no room for it.
    if (out.memory == Memory::kOut || config.isa_rev == 1) {
      out.memory = Memory::kOut;
      return;
    }
  } else if (type <= static_cast<uint32_t>(Memory::kAcc8) && out.memory != Memory::kOut) {
    out.stage = out.memory == Memory::kInp || out.memory == Memory::kWgt ? kLoadStage : kComputeStage;
    return;
  }
  throw Refusal("encoding",
                "instruction " + std::to_string(index) + " (" + (out.op == Op::kLoad ? "LOAD" : "STORE") +
                    "): memory type " + std::to_string(type) + " cannot be " +
                    (out.op == Op::kLoad ? "loaded" : "stored"),
                index);
}

void TakeLoops(const Config& config, Bits& low, Bits& high, Instruction& out) {
  out.reset = low.Flag() && out.op == Op::kGemm;
  out.uop_begin = low.Take(config.UopBits());
  out.uop_end = low.Take(config.UopBits() + 1);
  out.iter_out = low.Take(14);
  out.iter_in = low.Take(14);
  out.stray = low.Rest();
  out.dst_out = high.Take(config.AccBits());
  out.dst_in = high.Take(config.AccBits());
  const uint32_t src_bits = out.op == Op::kGemm ? config.InpBits() : config.AccBits();
  out.src_out = high.Take(src_bits);
  out.src_in = high.Take(src_bits);
}

void TakeAlu(const Config& config, Bits& high, Instruction& out, uint32_t index) {
  const uint32_t op = high.Take(config.isa_rev == 1 ? 2 : 3);
  if (op > static_cast<uint32_t>(Alu::kMul)) {
    throw Refusal("encoding",
                  "instruction " + std::to_string(index) + " (ALU): there is no operation " + std::to_string(op),
                  index);
  }
  out.alu = static_cast<Alu>(op);
  out.use_imm = high.Flag();
  out.imm = static_cast<int16_t>(high.Take(16));
  out.stray = out.stray || high.Rest();
}

Instruction DecodeOne(const Config& config, const uint8_t* words, uint32_t index) {
  uint64_t word[2];
  std::memcpy(word, words, sizeof word);
  Bits low(word[0]), high(word[1]);
  Instruction out{};
  const uint32_t op = low.Take(3);
  if (op > static_cast<uint32_t>(Op::kAlu)) {
    throw Refusal("encoding", "instruction " + std::to_string(index) + ": there is no opcode " + std::to_string(op),
                  index);
  }
  out.op = static_cast<Op>(op);
  out.stage = kComputeStage;
  out.pop_prev = low.Flag();
  out.pop_next = low.Flag();
  out.push_prev = low.Flag();
  out.push_next = low.Flag();
  if (out.IsMemory()) {
    TakeMemory(config, low, high, out, index);
  } else if (out.op == Op::kFinish) {
    out.stray = low.Rest() || high.Rest();
  } else {
    TakeLoops(config, low, high, out);
    if (out.op == Op::kAlu) {
      TakeAlu(config, high, out, index);
    } else {
      out.wgt_out = high.Take(config.WgtBits());
      out.wgt_in = high.Take(config.WgtBits());
      out.stray = out.stray || high.Rest();
    }
  }
  if ((out.stage == kLoadStage && (out.pop_prev || out.push_prev)) ||
      (out.stage == kStoreStage && (out.pop_next || out.push_next))) {
    Refuse("tokens", out, index,
           std::string("a flag names a stage ") + (out.stage == kLoadStage ? "before load" : "after store"));
  }
  return out;
}

}  // namespace

const char* StageName(int stage) {
  static const char* const kNames[] = {"load", "compute", "store"};
  return kNames[stage];
}

const char* MemoryName(Memory memory) {
  static const char* const kNames[] = {"UOP", "WGT", "INP", "ACC", "OUT", "ACC_8BIT"};
  return kNames[static_cast<int>(memory)];
}

uint64_t Instruction::Steps() const {
  if (!IsCompute() || uop_end <= uop_begin) return 0;
  return uint64_t{iter_out} * iter_in * (uop_end - uop_begin);
}

std::string Instruction::Name() const {
  static const char* const kOps[] = {"MIN", "MAX", "ADD", "SHR", "MUL"};
  switch (op) {
    case Op::kLoad:
      return IsNop() ? "NOP" : std::string("LOAD ") + MemoryName(memory);
    case Op::kStore:
      return IsNop() ? "NOP" : "STORE";
    case Op::kGemm:
      return reset ? "GEMM reset" : "GEMM";
    case Op::kAlu:
      return std::string("ALU ") + kOps[static_cast<int>(alu)];
    case Op::kFinish:
      break;
  }
  return "FINISH";
}

uint32_t ElementBytes(const Config& config, Memory memory) {
  switch (memory) {
    case Memory::kUop:
      return 4;
    case Memory::kWgt:
      return config.Taps();
    case Memory::kAcc:
      return 4 * config.Lanes();
    default:
      return config.Lanes();
  }
}

uint32_t Depth(const Config& config, Memory memory) {
  switch (memory) {
    case Memory::kUop:
      return 1u << config.UopBits();
    case Memory::kWgt:
      return 1u << config.WgtBits();
    case Memory::kInp:
      return 1u << config.InpBits();
    default:  // OUT has an element for each of ACC
      return 1u << config.AccBits();
  }
}

MicroOp DecodeMicroOp(const Config& config, uint32_t word) {
  Bits bits(word);
  MicroOp out{};
  out.dst = bits.Take(config.AccBits());
  out.src = bits.Take(config.InpBits());
  out.wgt = bits.Take(config.WgtBits());
  return out;
}

std::vector<Instruction> Decode(const Config& config, const uint8_t* program, uint32_t count) {
  std::vector<Instruction> out;
  out.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back(DecodeOne(config, program + size_t{16} * i, i));
    if (out.back().op == Op::kFinish && i + 1 != count) {
      Refuse("finish", out.back(), i, "FINISH is not the last instruction: " + std::to_string(count - i - 1) +
                                          " follow, and would run after the accelerator said that it is done");
    }
  }
  if (out.empty() || out.back().op != Op::kFinish) {
    throw Refusal("finish", "the program does not end with FINISH: the accelerator would never say that it is done");
  }
  return out;
}

std::string Where(const Instruction& instruction, uint32_t index) {
  return "instruction " + std::to_string(index) + " (" + instruction.Name() + " of " +
         StageName(instruction.stage) + ")";
}

void Refuse(const char* rule, const Instruction& instruction, uint32_t index, const std::string& why) {
  throw Refusal(rule, Where(instruction, index) + ": " + why, index);
}

}  // namespace edge::vta
