// The newest version of an app that was ever committed on a board: what is older is a downgrade. A file of its own, which only
// grows: neither a way back nor a `state` that cannot be read makes the board forget it.
#pragma once

#include <optional>
#include <string>

#include "field/place.h"
#include "field/state.h"
#include "field/version.h"

namespace edge::field {

struct NewestVersion {
  Version version;
  std::string statement;  // the SHA-256 of what was signed; empty: not known
};

// Nothing where no version was ever committed. A board of edge-rt 0.1.0 has it in its state alone. Throws EDGE_REFUSED,
// "newest", for what cannot be read: then nobody knows what is older.
std::optional<NewestVersion> ReadNewest(const Place& place, const State& state);

// Keeps a version, if none is newer, in the file; it is on the disk then.
void KeepNewest(const Place& place, const State& state, const NewestVersion& newest);

}  // namespace edge::field
