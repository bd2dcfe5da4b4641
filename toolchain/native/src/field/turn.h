// One installation at a time on a board.
#pragma once

#include <string>

#include "field/disk.h"

namespace edge::field {

class Turn {
 public:
  // Throws EDGE_BUSY, "busy", with who is at work. Whoever died holds nothing: the kernel gives its lock back, and
  // what it left in the file is overwritten.
  Turn(const std::string& field, const std::string& what);

 private:
  Handle file_;
};

// Whose turn it is now: the JSON in the lock; "null" where nobody is at work.
std::string AtWork(const std::string& field);

}  // namespace edge::field
