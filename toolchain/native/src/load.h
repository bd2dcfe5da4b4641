// Loads a network's library.
#pragma once

#include <tvm/ffi/extra/module.h>

#include <string>

namespace edge {

// As TVM's loader does, but with the constants copied once and not three times.
tvm::ffi::Module LoadLibrary(const std::string& path);

}  // namespace edge
