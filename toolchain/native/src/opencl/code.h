// What a library of TVM 0.27 embeds for OpenCL (target/source/codegen_source_base.cc writes it; the wheel
// has no reader of it): the kernels' source, and how each is called.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace edge::opencl {

// How many groups there are along an axis, or work items in each.
struct Extent {
  bool groups;
  int axis;
};

struct KernelCode {
  std::string name;
  std::string source;             // its own, and nothing of other kernels
  std::vector<DLDataType> types;  // of its arguments; handles are memory
  std::vector<Extent> extents;    // what follows them
};

// By their names. Throws where it is damaged, or code of another sort than OpenCL C.
std::map<std::string, KernelCode> ReadCode(const char* bytes, size_t size);

}  // namespace edge::opencl
