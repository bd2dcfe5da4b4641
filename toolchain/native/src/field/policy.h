// What the board's owner decides: policy.json in the app's folder. A release cannot change it.
#pragma once

#include <string>
#include <vector>

#include "field/place.h"

namespace edge::field {

struct Policy {
  std::string board_class;          // empty: the host says it
  std::vector<std::string> health;  // the command and its arguments; none: not asked
  int64_t health_timeout_s = 60;    // of each try
  int64_t health_tries = 3;
  bool downgrade = false;  // an operator may install an older version
  int64_t keep = 2;        // releases, `current` and `previous` among them
};

// Throws EDGE_REFUSED, "policy", for what cannot be read, and for a file that others than this user and root may
// write: it names a command.
Policy ReadPolicy(const Place& place);

// The class that `toolchain board provision` noted in the folder of all apps; empty where it noted none. It counts
// where neither the policy nor the host names one: for a release from a file. Throws as ReadPolicy does.
std::string NotedClass(const std::string& field);

}  // namespace edge::field
