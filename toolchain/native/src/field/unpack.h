// The folder of a release on the board.
#pragma once

#include <optional>
#include <string>

#include "field/parts.h"
#include "field/place.h"
#include "field/statement.h"

namespace edge::field {

// What a release says of itself; nothing where it is missing or cannot be read.
std::optional<Release> Kept(const Place& place, const std::optional<std::string>& name);

// The digest of a release's bundle, which hosts know it by; its name where that cannot be read.
std::optional<std::string> BundleOf(const Place& place, const std::optional<std::string>& name);

// The name of a release's folder, there already or not: another statement of the same bundle has another one.
std::string NameOf(const Place& place, const Release& release);

// Makes the folder of the parts: whole or not at all. Of one that is there and was damaged, what differs is replaced.
void Unpack(const Place& place, const std::string& name, const Release& release, const Parts& parts);

// A release that was installed here. Its signatures were checked then; it may have expired since.
// Throws EDGE_FAILED, "damaged", for one that is not there, or not whole.
Release ReadInstalled(const Place& place, const std::string& name, bool digests);

// Removes what was received: a release that is committed has it all.
void RemoveIncoming(const Place& place);

// Removes what a command made for itself and was cut before it was whole, but not what it received.
void RemoveRests(const Place& place);

}  // namespace edge::field
