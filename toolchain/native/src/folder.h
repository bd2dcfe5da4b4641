// Folders: those that no other user may look into or write to, their names, and how they are removed.
#pragma once

#include <string>
#include <vector>

#include "file.h"

namespace edge {

// A folder that is open. No link is followed.
class OpenFolder {
 public:
  // `at`: an open folder, or AT_FDCWD. Whether it opened is for the caller to ask.
  OpenFolder(int at, const std::string& name);

  int fd() const { return fd_.get(); }
  // What is in it, sorted; nothing where it did not open.
  std::vector<std::string> Names() const;

 private:
  Fd fd_;
};

// Removes a file, or a folder with all below it, whoever exchanges folders meanwhile. False, with errno, where it is still
// there.
bool RemoveTree(const std::string& path);

// Makes the state folder and those above it that are missing, 0700 whatever the umask. One that was
// there already must be this user's, and no others may write to it; then it stays as it is.
// Returns its real path.
std::string MakeState(const std::string& path);

// Makes a folder inside of the state folder; one that was there is closed to others.
void MakeInside(const std::string& path);

}  // namespace edge
