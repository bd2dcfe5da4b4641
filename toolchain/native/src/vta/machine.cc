#include "vta/machine.h"

#include <algorithm>
#include <memory>

#include "vta/gemm.h"
#include "vta/strict.h"

namespace edge::vta {
namespace {

Config Checked(const Config& config) {
  config.Check();
  return config;
}

// What counts as one step: so many multiplications, so many bytes that are moved, or an instruction.
constexpr uint64_t kWorkOfAStep = 256;

// Before anything is run: loops of one instruction may take 10^12 steps.
void CheckLength(const Config& config, const std::vector<Instruction>& program, const Limits& limits) {
  const uint64_t larger = std::max<uint64_t>(1, uint64_t{config.Batch()} * config.Taps() / kWorkOfAStep);
  uint64_t steps = program.size();
  for (uint32_t i = 0; i < program.size(); ++i) {
    const Instruction& now = program[i];
    steps += now.Steps() * larger;
    if (now.IsMemory()) {
      const uint64_t depth = Depth(config, now.memory);  // more is refused when it is run
      const uint64_t cells = std::min(depth, uint64_t{now.Rows()} * now.Columns());
      steps += cells * ElementBytes(config, now.memory) / kWorkOfAStep;
    }
    if (steps <= limits.steps) continue;
    Refuse("too-long", now, i, "with it the program has more than " + std::to_string(limits.steps) + " steps");
  }
}

// The driver's buffers begin pages, and implementations that or an address need it.
void CheckArena(const Arena& arena) {
  constexpr uint32_t kPage = 4096;
  if (arena.base % kPage == 0 && arena.base != 0) return;
  throw Refusal("arena", "the memory begins at " + std::to_string(arena.base) +
                             ", which is no page that a program may have: a multiple of 4096, and not 0");
}

}  // namespace

Machine::Machine(const Config& config) : config_(Checked(config)), sram_(config) {}

uint64_t Machine::Cycles(const Instruction& now, const Model& model, Outcome* outcome) const {
  uint64_t cycles = model.overhead;
  if (now.IsMemory()) {
    const uint64_t bytes = uint64_t{now.y_size} * now.x_size * ElementBytes(config_, now.memory);
    outcome->dma_bytes += bytes;
    if (bytes == 0) return cycles;
    return cycles + uint64_t{now.y_size} * model.dma_latency + (bytes + model.dma_bytes - 1) / model.dma_bytes;
  }
  const uint64_t steps = now.Steps();
  if (now.op == Op::kGemm) {
    outcome->gemm_steps += steps;
    cycles += steps * model.gemm_step + model.gemm_overhead;
  } else if (now.op == Op::kAlu) {
    outcome->alu_steps += steps;
    cycles += steps * model.alu_step + model.alu_overhead;
  }
  return cycles;
}

void Machine::Execute(const Instruction& now, uint32_t index, const Arena& arena) {
  switch (now.op) {
    case Op::kLoad:
      return Load(config_, sram_, arena, now, index);
    case Op::kStore:
      return Store(config_, sram_, arena, now, index);
    case Op::kGemm:
      return Gemm(config_, sram_, now, index);
    case Op::kAlu:
      return RunAlu(config_, sram_, now, index);
    case Op::kFinish:
      return;
  }
}

Outcome Machine::Run(const uint8_t* words, uint32_t count, const Arena& arena, const Model& model,
                     const Limits& limits, Mode mode) {
  if (model.dma_bytes == 0) throw Refusal("model", "the model's DMA moves 0 bytes in a cycle");
  if (limits.queue == 0) throw Refusal("model", "the queues hold 0 instructions");
  const std::vector<Instruction> program = Decode(config_, words, count);
  CheckLength(config_, program, limits);
  std::unique_ptr<Watch> watch;
  if (mode.strict) {
    CheckArena(arena);
    for (uint32_t i = 0; i < count; ++i) CheckPortable(config_, program[i], i);
    if (mode.computes) watch = std::make_unique<Watch>(config_, limits, arena, program);
  }
  sram_.Clear();
  Outcome outcome;
  Queues queues(program, model, limits);
  uint32_t index = 0;
  Clock clock{};
  while (queues.Next(&index, &clock)) {
    const Instruction& now = program[index];
    if (watch != nullptr) watch->Begin(now, index, clock, sram_, arena);
    if (mode.computes) Execute(now, index, arena);
    queues.End(Cycles(now, model, &outcome), mode.strict);
  }
  if (mode.strict) queues.CheckEmpty();
  outcome.cycles = queues.Cycles();
  for (int stage = 0; stage < kStages; ++stage) outcome.stages[stage] = queues.Times(stage);
  outcome.timeline = queues.Timeline();
  return outcome;
}

}  // namespace edge::vta
