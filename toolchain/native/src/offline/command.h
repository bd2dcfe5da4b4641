// `edge-rt measure FOLDER`: times exported candidates where no host is.
#pragma once

#include "options.h"

namespace edge {

int MeasureCommand(const Options& options);

}  // namespace edge
