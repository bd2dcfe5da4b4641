// What happened to an app: lines of JSON, the newest at the end of `journal`, older ones in `journal.1`.
#pragma once

#include <string>

#include "field/place.h"

namespace edge::field {

// Adds a line, `members` of an object after the time; it is on the disk then.
void Note(const Place& place, const std::string& members);

}  // namespace edge::field
