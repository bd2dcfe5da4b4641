// A kernel as a device has it.
#pragma once

#include <vector>

#include "opencl/code.h"
#include "opencl/queue.h"

namespace edge::opencl {

// What a kernel's argument was set to last.
struct Argument {
  uint64_t bits = 0;
  uint64_t freed = 0;  // for memory: FreedCount then
  bool set = false;
};

struct Kernel {
  cl_kernel kernel = nullptr;
  size_t work_group = 0;     // most work items of a group, with the registers that it needs; 0: not known
  uint64_t local_bytes = 0;  // of a group
  std::vector<Argument> arguments{};
};

// Compiles it, or takes what an earlier process has compiled. Throws with the compiler's words.
Kernel Compile(Queue& queue, const KernelCode& code);

}  // namespace edge::opencl
