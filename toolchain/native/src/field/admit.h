// Whether a board may install a release that its trust allows: its class, and no older version than it should have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "field/statement.h"

namespace edge::field {

struct Situation {
  std::string board_class;
  std::optional<Version> installed;
  std::string installed_statement;  // its digest; empty if nothing is installed, or what is cannot be read
  std::optional<Version> newest;    // that was committed here, or that the host knows of
  bool downgrade = false;           // the operator asks for it, and the board's policy allows it
  std::string newest_statement;     // what `newest` was here; empty: not known
};

// Throws EDGE_REFUSED: "class", "version" for an older version, or for another statement of the same version.
void Admit(const Release& release, const Situation& situation);

}  // namespace edge::field
