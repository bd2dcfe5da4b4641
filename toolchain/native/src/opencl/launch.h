// Begins kernels.
#pragma once

#include <tvm/ffi/any.h>

#include "opencl/program.h"

namespace edge::opencl {

// The number of the device that this thread's compiled code computes on.
int& CurrentDevice();

// Begins a kernel with what compiled code hands over: its arguments, then the extents of the grid and of a
// work group. Throws where the device can't; the caller holds `queue.launching`.
void Launch(Queue& queue, Kernel& kernel, const KernelCode& code, const tvm::ffi::AnyView* arguments,
            int count);

}  // namespace edge::opencl
