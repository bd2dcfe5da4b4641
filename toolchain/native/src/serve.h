// `edge-rt serve`: an RPC server behind a tracker, one session at a time.
#pragma once

#include "options.h"

namespace edge {

int ServeCommand(const Options& options);

}  // namespace edge
