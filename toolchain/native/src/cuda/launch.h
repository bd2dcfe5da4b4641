// Begins kernels.
#pragma once

#include <tvm/ffi/any.h>

#include <memory>

#include "cuda/units.h"

namespace edge::cuda {

// The number of the GPU that this thread's compiled code computes on.
int& CurrentDevice();

// Begins a kernel of `units` with what compiled code hands over: its arguments, then the extents of the grid and
// of a block, then the shared memory that it asks for. Throws where the GPU can't.
void Launch(Gpu& gpu, const std::shared_ptr<LoadedUnits>& units, Kernel& kernel, const KernelForm& form,
            const tvm::ffi::AnyView* arguments, int count);

}  // namespace edge::cuda
