// The accelerator in the programmable logic of a Zynq, as the public design for the Pynq-Z1 has it.
#pragma once

#include <memory>
#include <string>

#include "vta/run/contiguous.h"
#include "vta/run/driver.h"
#include "vta/run/registers.h"

namespace edge::vta {

// Where Linux has what the driver needs; a test has other files.
struct PynqPlaces {
  std::string registers = "/dev/mem";
  std::string machine = "/proc/device-tree/compatible";
  // Which design is loaded: `board provision --bitstream` writes it, and a restart takes it away, as the design itself.
  std::string design = "/run/edge-rt/vta-design";
  MemoryPlaces memory;
};

// Lines `key=value`.
struct Design {
  std::string bitstream;
  uint32_t isa_rev = 0;
  bool coherent = true;  // whether it sees the CPU's caches
};

// Why there is no accelerator here; "" where there is. Keeps nothing open.
std::string PynqProblem(const PynqPlaces& places);

// Refuses a file that is none.
Design ReadDesign(const std::string& file);

// `longest`: seconds for a program, at least; one that a model gives more has twenty times as much.
std::unique_ptr<Driver> NewPynq(std::unique_ptr<Registers> registers, std::unique_ptr<Contiguous> memory,
                                Design design, double longest = 2);
// All of that from their places.
std::unique_ptr<Driver> OpenPynq(const PynqPlaces& places);

}  // namespace edge::vta
