#include "cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "text.h"

namespace edge::cuda {
namespace {

constexpr const char* kFile = "libcuda.so.1";

}  // namespace

std::string VersionText(int version) {
  return Cat({version / 1000, ".", version % 1000 / 10});
}

std::string Driver::ErrorName(CUresult code) const {
  const char* name = nullptr;
  if (cuGetErrorName(code, &name) != kSuccess || name == nullptr) return Cat({"the unknown code ", static_cast<int>(code)});
  return Cat({name, " (", static_cast<int>(code), ")"});
}

std::optional<Driver> OpenDriver(std::string* problem) {
  const char* named = std::getenv("EDGE_CUDA_DRIVER");
  Driver driver;
  driver.file = named == nullptr || *named == '\0' ? kFile : named;
  void* library = dlopen(driver.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* words = dlerror();
    // Where the file exists, why it can't be used says more than that it can't.
    const bool absent = words == nullptr || std::strstr(words, "No such file") != nullptr;
    *problem = absent ? driver.file + " is not here: NVIDIA's driver is not installed" : Cat({driver.file, ": ", words});
    return std::nullopt;
  }
  const char* missing = nullptr;
#define EDGE_CU_FIND(name, arguments)                                         \
  driver.name = reinterpret_cast<CUresult(*) arguments>(dlsym(library, #name)); \
  if (driver.name == nullptr) missing = #name;
  EDGE_CU_FUNCTIONS(EDGE_CU_FIND)
#undef EDGE_CU_FIND
  if (missing != nullptr) {
    *problem = Cat({driver.file, " has no ", missing});
    return std::nullopt;
  }
  CUresult code = driver.cuDriverGetVersion(&driver.version);
  const char* call = "cuDriverGetVersion";
  if (code == kSuccess) {
    call = "cuInit";
    code = driver.cuInit(0);
  }
  if (code == kSuccess) return driver;
  *problem = Cat({driver.file, ": ", call, " says ", driver.ErrorName(code),
                  code == kNoDevice ? ": there is no NVIDIA GPU here, or this user may not open it" : ""});
  return std::nullopt;
}

}  // namespace edge::cuda
