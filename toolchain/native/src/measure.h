// `edge-rt run` and `edge-rt bench`.
#pragma once

#include "options.h"

namespace edge {

int RunCommand(const Options& options);
int BenchCommand(const Options& options);

}  // namespace edge
