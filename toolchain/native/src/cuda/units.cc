#include "cuda/units.h"

#include "text.h"

namespace edge::cuda {

std::string WhyNot(const std::vector<Unit>& units, const CuDevice& device) {
  std::string problem;
  for (const Unit& unit : units) {
    if (CodeFor(unit, device, &problem) == nullptr) return problem;
  }
  return "";
}

LoadedUnits::LoadedUnits(Gpu& gpu, const std::vector<Unit>& units) : gpu_(gpu) {
  const std::string problem = WhyNot(units, gpu.device);
  if (!problem.empty()) Fail(problem);
  gpu_.Enter();
  try {
    for (const Unit& unit : units) Load(unit);
  } catch (...) {
    Unload();
    throw;
  }
}

LoadedUnits::~LoadedUnits() { Unload(); }

void LoadedUnits::Load(const Unit& unit) {
  std::string names, problem;
  for (const std::string& name : unit.kernels) names += (names.empty() ? "" : ", ") + name;
  const Code& code = *CodeFor(unit, gpu_.device, &problem);
  const bool newer = code.cuda > gpu_.device.driver->version;
  CUmodule module = nullptr;
  gpu_.Check("cuModuleLoadData", gpu_.cu.cuModuleLoadData(&module, code.image.data()),
             Cat({"code for ", ArchName(code.arch), " of ", names, ", compiled by CUDA ", VersionText(code.cuda),
                  newer ? ", which is newer than the driver: update the driver" : ""}));
  modules_.push_back(module);
  for (const std::string& name : unit.kernels) {
    Kernel& kernel = kernels_[name];
    gpu_.Check("cuModuleGetFunction", gpu_.cu.cuModuleGetFunction(&kernel.function, module, name.c_str()), name);
    const auto number = [&](CUfunction_attribute what) -> uint64_t {
      int value = 0;
      const CUresult said = gpu_.cu.cuFuncGetAttribute(&value, what, kernel.function);
      return said == kSuccess && value > 0 ? static_cast<uint64_t>(value) : 0;
    };
    kernel.threads = number(kFunctionMaxThreads);
    kernel.registers = number(kFunctionRegisters);
    kernel.shared = number(kFunctionShared);
  }
}

void LoadedUnits::Unload() noexcept {
  if (modules_.empty() || !gpu_.TryEnter()) return;
  gpu_.cu.cuStreamSynchronize(gpu_.stream);
  for (const CUmodule module : modules_) gpu_.cu.cuModuleUnload(module);
  modules_.clear();
  gpu_.workspaces.Drop();  // they were its functions', most likely
}

}  // namespace edge::cuda
