// The folder of a release on the board.
#pragma once

#include "field/parts.h"
#include "field/place.h"
#include "field/statement.h"

namespace edge::field {

// Makes it of the parts: whole or not at all. Of a folder that is there and was damaged, what differs is replaced.
void Unpack(const Place& place, const Release& release, const Parts& parts);

// A release that was installed here. Its signatures were checked then; it may have expired since.
// Throws EDGE_FAILED, "damaged", for one that is not there, or not whole.
Release ReadInstalled(const Place& place, const std::string& digest, bool digests);

// Removes what was received: a release that is committed has it all.
void RemoveIncoming(const Place& place);

// Removes what an installation made for itself, but not what it received.
void RemoveRests(const Place& place);

}  // namespace edge::field
