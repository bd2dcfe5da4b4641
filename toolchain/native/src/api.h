// What edge-rt itself needs besides the C interface.
#pragma once

#include <string>

#include "failure.h"

namespace edge {

// Of the calling thread's last failed call of the C interface.
const Failure& LastFailure();

// Throws EDGE_REQUIRES when a packed function of the comma-separated list is not here.
void CheckFunctions(const std::string& names);

}  // namespace edge
