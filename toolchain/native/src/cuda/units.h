// The compiled code of a library in a GPU's context.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/code.h"
#include "cuda/gpu.h"

namespace edge::cuda {

struct Kernel {
  CUfunction function = nullptr;
  uint64_t threads = 0;    // most of a block, with the registers that it needs; 0: not known
  uint64_t registers = 0;  // of a thread
  uint64_t shared = 0;     // bytes of a block, without those that a launch asks for
  std::atomic<uint64_t> asked = 0;  // bytes that the driver was told a launch may ask for
};

// All units of a library, loaded before its first kernel is begun: to load code in the middle of a capture would
// break it. Graphs that were captured with its kernels share it.
class LoadedUnits {
 public:
  // Throws if a unit has no code for the GPU, or the driver refuses it.
  LoadedUnits(Gpu& gpu, const std::vector<Unit>& units);
  ~LoadedUnits();
  LoadedUnits(const LoadedUnits&) = delete;
  LoadedUnits& operator=(const LoadedUnits&) = delete;

  Kernel& Find(const std::string& name) { return kernels_.at(name); }

 private:
  void Load(const Unit& unit);
  void Unload() noexcept;

  Gpu& gpu_;
  std::vector<CUmodule> modules_;
  std::map<std::string, Kernel> kernels_;
};

// Why a GPU takes no code of some unit; "" if it takes all.
std::string WhyNot(const std::vector<Unit>& units, const CuDevice& device);

}  // namespace edge::cuda
