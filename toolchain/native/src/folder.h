// Folders that no other user may look into or write to.
#pragma once

#include <string>

namespace edge {

// Makes the state folder and those above it that are missing, 0700 whatever the umask. One that was
// there already must be this user's, and no others may write to it; then it stays as it is.
// Returns its real path.
std::string MakeState(const std::string& path);

// Makes a folder inside of the state folder; one that was there is closed to others.
void MakeInside(const std::string& path);

}  // namespace edge
