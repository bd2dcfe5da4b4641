// What a library of TVM 0.27 embeds for OpenCL (target/source/codegen_source_base.cc writes it; the wheel
// has no reader of it): the kernels' source, and how each is called.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace edge::opencl {

struct KernelCode {
  std::string name;
  std::string source;              // its own, and nothing of other kernels
  std::vector<DLDataType> types;   // of its arguments; handles are memory
  std::vector<std::string> extents;  // what follows them: "blockIdx.x", "threadIdx.y" …
};

// By their names. Throws where it is damaged, or code of another sort than OpenCL C.
std::map<std::string, KernelCode> ReadCode(const char* bytes, size_t size);

}  // namespace edge::opencl
