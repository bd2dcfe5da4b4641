// The OpenCL driver of this machine, looked for when it is first needed.
#pragma once

#include <optional>
#include <string>

#include "opencl/cl.h"

namespace edge::opencl {

struct Driver {
#define EDGE_CL_MEMBER(result, name, arguments) result(*name) arguments = nullptr;
  EDGE_CL_FUNCTIONS(EDGE_CL_MEMBER)
#undef EDGE_CL_MEMBER
  std::string file;
};

// Opens a library by one of its names. A driver that has been opened is never closed: its threads run
// on. Nothing is here where it is missing, or lacks a function; `problem` says which.
std::optional<Driver> OpenDriver(const char* file, std::string* problem);

// A code by the name in the specification and its number: "CL_OUT_OF_RESOURCES (-5)".
std::string ErrorName(cl_int code);

}  // namespace edge::opencl
