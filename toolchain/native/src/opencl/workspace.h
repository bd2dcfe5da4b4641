// The workspaces (workspaces.h) of OpenCL devices.
#pragma once

#include "workspaces.h"

namespace edge::opencl {

Workspaces& WorkspacesOf(int device);

}  // namespace edge::opencl
