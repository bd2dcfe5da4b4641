// What runs programs: a simulation, or an accelerator.
#pragma once

#include <memory>
#include <string>

#include "device.h"
#include "vta/request.h"
#include "vta/run/program.h"

namespace edge::vta {

// Those of the public designs' queues and tokens; the first is looked at in strict mode alone.
constexpr Limits kLimits{4, 512, 255, kMostSteps};

// A program in memory that its accelerator works in, moved to where that lies. Gone, the memory is free again.
class Loaded {
 public:
  virtual ~Loaded() = default;
  // Where its inputs are put, and its outputs are found.
  virtual uint8_t* memory() = 0;
  // Until it has finished. Cycles of the model; 0 where an accelerator ran it, of which no model is asked.
  virtual uint64_t Run() = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;
  // Refuses a program for another design. What it returns may run at the same time as others of this driver.
  virtual std::unique_ptr<Loaded> Load(const Program& program) = 0;
};

// "sim" or "pynq". Opened when it is first asked for, and kept.
Driver& FindDriver(const std::string& name);

std::unique_ptr<Driver> NewSimulation();

// The drivers that are here, the simulation last.
Presence FindVtas();

}  // namespace edge::vta
