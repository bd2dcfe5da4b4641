// What edge-rt itself needs besides the C interface.
#pragma once

#include "failure.h"

namespace edge {

// Of the calling thread's last failed call of the C interface.
const Failure& LastFailure();

}  // namespace edge
