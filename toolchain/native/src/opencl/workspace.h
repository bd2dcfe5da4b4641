// Memory that functions take for themselves and give back before they return, such as the transformed image
// between the kernels of a convolution: kept, since making a buffer is slow, and slower the larger it is.
#pragma once

#include <cstddef>

namespace edge::opencl {

// What is given back may be handed out again while kernels that were begun with it still wait: the queue
// works in order.
void* TakeWorkspace(int device, size_t bytes);
void GiveWorkspace(int device, void* handle);

// Gives what is kept back to the driver. Returns whether there was anything.
bool DropWorkspaces(int device);

}  // namespace edge::opencl
