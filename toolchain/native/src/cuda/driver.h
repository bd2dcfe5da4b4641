// NVIDIA's driver, looked for when it is first needed.
#pragma once

#include <optional>
#include <string>

#include "cuda/cu.h"

namespace edge::cuda {

struct Driver {
#define EDGE_CU_MEMBER(name, arguments) CUresult(*name) arguments = nullptr;
  EDGE_CU_FUNCTIONS(EDGE_CU_MEMBER)
#undef EDGE_CU_MEMBER
  std::string file;
  int version = 0;  // of CUDA that it knows, as the driver says it: 13000 for 13.0

  // A code by its name in the documentation and its number: "CUDA_ERROR_OUT_OF_MEMORY (2)".
  std::string ErrorName(CUresult code) const;
};

// Opens the driver of this machine, or the file that EDGE_CUDA_DRIVER names, and initializes it. One that has been
// opened is never closed: its threads run on. Nothing where it is missing, lacks a function or finds no GPU;
// `problem` says which.
std::optional<Driver> OpenDriver(std::string* problem);

// "13.0" of 13000.
std::string VersionText(int version);

}  // namespace edge::cuda
