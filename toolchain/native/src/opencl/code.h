// The kernels' source in what a library embeds for OpenCL.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "embedded.h"

namespace edge::opencl {

constexpr const char* kLanguage = "OpenCL";

struct KernelCode : KernelForm {
  std::string source;  // its own, and nothing of other kernels
};

// By their names. Throws where it is damaged, or code of another sort than OpenCL C.
std::map<std::string, KernelCode> ReadCode(std::string_view bytes);

}  // namespace edge::opencl
