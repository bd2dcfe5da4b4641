// edge-rt vta: the machine for another process.
#pragma once

#include "options.h"

namespace edge {

// Answers requests of the standard input until it ends.
int VtaCommand(const Options& options);

}  // namespace edge
