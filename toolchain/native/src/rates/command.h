// `edge-rt probe`: how fast this machine's cores multiply, and read what lies in each cache and in memory.
#pragma once

#include "options.h"

namespace edge::rates {

int ProbeCommand(const Options& options);

}  // namespace edge::rates
