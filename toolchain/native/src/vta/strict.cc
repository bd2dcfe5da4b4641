#include "vta/strict.h"

#include "text.h"

namespace edge::vta {
namespace {

std::string Cell(Memory memory, uint32_t element) {
  return std::string(MemoryName(memory)) + "[" + std::to_string(element) + "]";
}

std::string Byte(uint64_t skewed) { return "the DRAM around byte " + std::to_string(skewed) + " of the arena"; }

}  // namespace

Watch::Watch(const Config& config, const Limits& limits, const Arena& arena,
             const std::vector<Instruction>& program)
    : config_(config),
      limits_(limits),
      uop_(Depth(config, Memory::kUop)),
      acc_(Depth(config, Memory::kAcc)),
      inp_(Depth(config, Memory::kInp)),
      wgt_(Depth(config, Memory::kWgt)),
      out_(Depth(config, Memory::kOut)),
      state_(Depth(config, Memory::kOut)),
      used_(Depth(config, Memory::kAcc)),
      pieces_((uint64_t{arena.bytes} + arena.base % config.Lanes()) / config.Lanes() + 1) {
  for (uint32_t i = 0; i < program.size(); ++i) stages_[program[i].stage].push_back(i);
}

void Watch::Begin(const Instruction& instruction, uint32_t index, const Clock& clock, const Sram& sram,
                  const Arena& arena) {
  now_ = &instruction;
  index_ = index;
  clock_ = &clock;
  sram_ = &sram;
  arena_ = &arena;
  if (instruction.IsNop()) return;
  if (instruction.IsMemory()) {
    CheckBlock(config_, arena, instruction, index);
    return instruction.op == Op::kLoad ? Load() : Store();
  }
  if (instruction.op == Op::kGemm) return Gemm();
  if (instruction.op == Op::kAlu) return RunAlu();
  for (const int stage : {kLoadStage, kStoreStage}) {
    if (clock[stage] == stages_[stage].size()) continue;
    Fail("finish", std::string("the accelerator says that it is done while ") + StageName(stage) +
                       " may still be at work: no token tells compute that instruction " +
                       std::to_string(stages_[stage].back()) + " has ended");
  }
}

void Watch::Race(const std::string& what, int other, uint32_t number, const char* does, const char* verb) const {
  Fail("race", std::string(verb) + " " + what + ", which instruction " +
                   std::to_string(stages_[other][number - 1]) + " of " + StageName(other) + " " + does +
                   ": no token says which is first");
}

void Watch::ReadsShared(std::vector<Element>& of, Memory memory, uint32_t element, int writer) {
  Element& e = of[element];
  if (e.written == 0) Fail("undefined", "reads " + Cell(memory, element) + ", which nothing was written to");
  if (e.written > (*clock_)[writer]) Race(Cell(memory, element), writer, e.written, "writes", "reads");
  e.read = Number();
}

void Watch::WritesShared(std::vector<Element>& of, Memory memory, uint32_t element, int reader) {
  Element& e = of[element];
  if (e.read > (*clock_)[reader]) {
    Race(Cell(memory, element), reader, e.read, "reads", "writes");
  }
  e.written = Number();
}

void Watch::LoadPieces() {
  const uint32_t lanes = config_.Lanes(), skew = arena_->base % lanes;
  const bool compute = now_->stage == kComputeStage;
  for (uint32_t y = 0; y < now_->y_size; ++y) {
    uint64_t first = 0, last = 0;
    RowInArena(config_, *arena_, *now_, y, &first, &last);
    for (uint64_t p = (first + skew) / lanes; p <= (last - 1 + skew) / lanes; ++p) {
      Piece& piece = pieces_[p];
      if (piece.written > (*clock_)[kStoreStage]) {
        Race(Byte(p * lanes), kStoreStage, piece.written, "writes", "reads");
      }
      piece.read[compute] = Number();
    }
  }
}

void Watch::StorePieces() {
  const uint32_t lanes = config_.Lanes(), skew = arena_->base % lanes;
  for (uint32_t y = 0; y < now_->y_size; ++y) {
    uint64_t first = 0, last = 0;
    RowInArena(config_, *arena_, *now_, y, &first, &last);
    for (uint64_t p = (first + skew) / lanes; p <= (last - 1 + skew) / lanes; ++p) {
      Piece& piece = pieces_[p];
      for (const int reader : {kLoadStage, kComputeStage}) {
        if (piece.read[reader] <= (*clock_)[reader]) continue;
        Race(Byte(p * lanes), reader, piece.read[reader], "reads", "writes");
      }
      piece.written = Number();
    }
  }
}

void Watch::Load() {
  LoadPieces();
  const uint32_t cells = now_->Rows() * now_->Columns();  // CheckBlock: of a buffer
  for (uint32_t e = now_->sram; e < now_->sram + cells; ++e) {
    switch (now_->memory) {
      case Memory::kUop:
        uop_[e] = 1;
        break;
      case Memory::kInp:
        WritesShared(inp_, Memory::kInp, e, kComputeStage);
        break;
      case Memory::kWgt:
        WritesShared(wgt_, Memory::kWgt, e, kComputeStage);
        break;
      default:
        WritesAcc(e, Out::kLoaded);
    }
  }
}

void Watch::Store() {
  const uint32_t cells = now_->y_size * now_->x_size;
  for (uint32_t e = now_->sram; e < now_->sram + cells; ++e) {
    if (out_[e].written > (*clock_)[kComputeStage]) {
      Race(Cell(Memory::kOut, e), kComputeStage, out_[e].written, "writes", "reads");
    }
    if (state_[e] != Out::kValid) {
      const char* const why = state_[e] == Out::kNothing  ? "nothing has been computed into ACC of that index"
                              : state_[e] == Out::kLoaded ? "ACC of that index was only loaded"
                                                          : "ACC of that index was only reset";
      Fail("stale-out", "stores " + Cell(Memory::kOut, e) + ", which has no defined value: " + why +
                            "; let an ALU touch it, such as ADD 0");
    }
    out_[e].read = Number();
  }
  StorePieces();
}

void Watch::NeedsUops() {
  for (uint32_t i = now_->uop_begin; i < now_->uop_end && i < uop_.size(); ++i) {
    if (!uop_[i]) Fail("undefined", "micro-op " + std::to_string(i) + " has not been loaded");
  }
}

void Watch::NeedsPlace(Memory memory, uint32_t element) const {
  const uint32_t depth = Depth(config_, memory);
  if (element >= depth) {
    Fail("bounds", "names " + Cell(memory, element) + " of " + std::to_string(depth) +
                       ", which some implementations read though it resets");
  }
}

void Watch::NeedsAcc(uint32_t element) {
  if (!acc_[element]) {
    Fail("undefined", "reads " + Cell(Memory::kAcc, element) + ", which nothing was written to");
  }
}

void Watch::WritesAcc(uint32_t element, Out state) {
  acc_[element] = 1;
  state_[element] = state;
  // OUT changes too, or some implementation's does.
  WritesShared(out_, Memory::kOut, element, kStoreStage);
}

void Watch::Use(uint32_t element) {
  const uint64_t last = used_[element];
  if (last != 0 && step_ - last < limits_.hazard) {
    Fail("hazard", "ACC[" + std::to_string(element) + "] is used again after " +
                       Counted(static_cast<int64_t>(step_ - last), "step") + "; the pipeline needs " + std::to_string(limits_.hazard));
  }
}

void Watch::Gemm() {
  const std::vector<MicroOp> uops = MicroOps(config_, *sram_, *now_, index_);
  NeedsUops();
  step_ += limits_.hazard;  // the pipeline is empty between instructions
  ForSteps(*now_, uops, [&](uint32_t dst, uint32_t src, uint32_t wgt) {
    ++step_;
    Use(dst);
    if (now_->reset) {
      // Some implementations read both operands all the same.
      NeedsPlace(Memory::kInp, src);
      NeedsPlace(Memory::kWgt, wgt);
    } else {
      ReadsShared(inp_, Memory::kInp, src, kLoadStage);
      ReadsShared(wgt_, Memory::kWgt, wgt, kLoadStage);
      NeedsAcc(dst);
    }
    WritesAcc(dst, now_->reset ? Out::kReset : Out::kValid);
    used_[dst] = step_;
  });
}

void Watch::CheckAmounts(uint32_t dst, uint32_t src, uint64_t first_step) const {
  if (used_[src] >= first_step) {
    Fail("shift", "computes in " + Cell(Memory::kAcc, src) + " by how much it shifts afterwards: do that in an "
                  "instruction before");
  }
  const size_t lanes = config_.Lanes();
  for (size_t i = 0; i < lanes; ++i) {
    const int32_t amount = sram_->acc[src * lanes + i];
    if (amount >= 0 && amount <= 15) continue;
    Fail("shift", "shifts lane " + std::to_string(i) + " of " + Cell(Memory::kAcc, dst) + " by " +
                      std::to_string(amount) + ", which stands in " + Cell(Memory::kAcc, src) +
                      ": a tensor shifts by 0 to 15");
  }
}

void Watch::RunAlu() {
  const std::vector<MicroOp> uops = MicroOps(config_, *sram_, *now_, index_);
  NeedsUops();
  step_ += limits_.hazard;
  const uint64_t first_step = step_ + 1;
  const bool shifts = now_->alu == Alu::kShr && !now_->use_imm;
  for (size_t i = 0; now_->use_imm && i < uops.size(); ++i) {
    if (uops[i].src == uops[i].dst) continue;
    Fail("immediate", "micro-op " + std::to_string(now_->uop_begin + i) + " has src " +
                          std::to_string(uops[i].src) + " and dst " + std::to_string(uops[i].dst) +
                          ": with an immediate they must be the same, implementations read either");
  }
  ForSteps(*now_, uops, [&](uint32_t dst, uint32_t src, uint32_t) {
    ++step_;
    Use(dst);
    NeedsAcc(dst);
    if (!now_->use_imm) {
      Use(src);
      NeedsAcc(src);
    }
    if (shifts) CheckAmounts(dst, src, first_step);
    WritesAcc(dst, Out::kValid);
    used_[dst] = step_;
  });
}

}  // namespace edge::vta
