// Old releases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "field/place.h"

namespace edge::field {

// Removes releases until `keep` are left, the oldest first; never `current`, `previous` and `except`. Returns their names. One
// that a cut leaves half removed is no release any more: it has another name.
std::vector<std::string> Prune(const Place& place, int64_t keep, const std::string& except = "");

}  // namespace edge::field
