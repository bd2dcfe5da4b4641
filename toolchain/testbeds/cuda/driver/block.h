// Runs kernels on this thread of the host, block by block, with a fiber for each thread of a block.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "driver_api.h"
#include "edge_kernel_abi.h"

namespace emulated {

struct Launch {
  const edge::Unit* unit;
  const edge::Kernel* kernel;
  edge::Triple grid, block;
  std::size_t dynamic_shared;
  std::vector<std::vector<char>> arguments;  // copied when the kernel was launched
  const void* owner;                         // of the memory that it may access
  std::size_t constants;                     // bytes at the begin of the unit that it may read
};

struct Outcome {
  CUresult result = CUDA_SUCCESS;
  std::string words;  // what was wrong, in which block and thread
};

// Runs all blocks; ends at the first thing that is wrong.
Outcome Run(const Launch& launch);

// What units of kernels are handed when they are loaded.
const edge::Services& KernelServices();

}  // namespace emulated
