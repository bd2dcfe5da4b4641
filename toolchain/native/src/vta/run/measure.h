// A program that a session was sent as a file, run and timed: what tuning measures candidates by.
#pragma once

#include <dlpack/dlpack.h>

#include <memory>
#include <string>
#include <vector>

#include "vta/run/clock.h"

namespace edge::vta {

class Uploaded {
 public:
  // Loads it by the driver of this process (edge.vta.use). Refuses what ReadProgram and the driver refuse.
  explicit Uploaded(const std::string& path);
  // Runs it once on the inputs, which come first, and fills the outputs. Then an accelerator's runs are timed, as
  // `how` says: "times_ms". A simulation has no time of a clock: it says what the model counted, "modelled".
  std::string Measure(const std::vector<DLTensor*>& tensors, const Timing& how);

 private:
  std::string driver_;
  ProgramHeader header_;
  std::vector<Value> inputs_, outputs_;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace edge::vta
