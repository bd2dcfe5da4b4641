// A VTA in software: what a program computes, whether it is portable, and how long a model says that it takes.
#pragma once

#include <cstdint>
#include <vector>

#include "vta/queues.h"
#include "vta/sram.h"

namespace edge::vta {

struct Mode {
  bool strict = false;    // refuse what only some implementations run
  bool computes = true;   // else only the model's time: micro-ops and data are not looked at
};

struct Outcome {
  uint64_t cycles = 0;
  StageTimes stages[kStages];
  uint64_t dma_bytes = 0, gemm_steps = 0, alu_steps = 0;
  std::vector<Interval> timeline;  // one for each instruction
};

// One accelerator. Runs one program after another; none sees what another left on the chip.
class Machine {
 public:
  // Refuses a configuration that cannot be.
  explicit Machine(const Config& config);

  // Runs `count` instructions of 16 bytes over the arena, and touches no other memory. Throws Refusal, with the
  // arena as far as the program came. Ends within the time of `limits.steps` steps.
  Outcome Run(const uint8_t* program, uint32_t count, const Arena& arena, const Model& model,
              const Limits& limits, Mode mode);

 private:
  uint64_t Cycles(const Instruction& instruction, const Model& model, Outcome* outcome) const;
  void Execute(const Instruction& instruction, uint32_t index, const Arena& arena);

  Config config_;
  Sram sram_;
};

}  // namespace edge::vta
