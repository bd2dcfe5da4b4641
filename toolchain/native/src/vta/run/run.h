// The packed function edge.vta.run: what networks call with a program.
#pragma once

#include <tvm/runtime/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace edge::vta {

// Room for a library's constant of that many bytes, which may be a program: what was made of it goes when it goes.
tvm::runtime::Tensor NewProgram(int64_t bytes);

// Whether a constant is kept so.
bool MayBeProgram(DLDataType dtype, const std::vector<int64_t>& shape);

// The driver that the calling thread's programs are run by. Fails where the accelerator is meant and there is none.
std::string DriverName();

// What the cycle model says of the programs that the calling thread has simulated.
struct Modelled {
  double ms = 0;
  uint64_t cycles = 0;
  uint32_t programs = 0, mhz = 0, version = 0;
};

// Since the last call; nothing where none was simulated.
std::optional<Modelled> TakeModelled();

}  // namespace edge::vta
