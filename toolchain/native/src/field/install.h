// One installation, from its first byte to its end.
#pragma once

#include <string>

#include "field/outcome.h"
#include "field/stream.h"

namespace edge::field {

// Installs what comes, and says each step. Throws before it is known which app the release is for, and EDGE_BUSY;
// all else is in the outcome. `measurements`: the folder of the measurements' lock.
void Install(const std::string& field, const std::string& measurements, Stream* stream, Outcome* outcome);

}  // namespace edge::field
