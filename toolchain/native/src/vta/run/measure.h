// A program in a file, run and timed: what tuning measures candidates by.
#pragma once

#include <dlpack/dlpack.h>

#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "vta/run/clock.h"

namespace edge::vta {

class Uploaded final : public DeviceProgram {
 public:
  // Loads it by the driver of this process (edge.vta.use). Refuses what ReadProgram and the driver refuse.
  explicit Uploaded(const std::string& path);
  void Run(const std::vector<DLTensor*>& tensors) override;
  // A simulation has no time of a clock: it says what the model counted in the last run.
  Timed Time(int number, int repeat, int least_ms) override;
  // Runs and times it; returns a JSON object: "times_ms" of an accelerator, "modelled" of a simulation.
  std::string Measure(const std::vector<DLTensor*>& tensors, const Timing& how);

 private:
  std::string driver_;
  ProgramHeader header_;
  std::vector<Value> inputs_, outputs_;
  std::unique_ptr<Loaded> loaded_;
  uint64_t cycles_ = 0;  // of the last run, by the model
};

// A hook of the kind of device (device.h).
std::unique_ptr<DeviceProgram> LoadCandidate(const std::string& path);

}  // namespace edge::vta
