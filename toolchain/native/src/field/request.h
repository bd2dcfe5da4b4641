// What stands before a release's parts: what the host asks for, and the envelopes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "field/stream.h"
#include "field/version.h"

namespace edge::field {

struct Request {
  std::string app;
  std::vector<std::string> trust;  // envelopes, oldest first
  std::string release;             // an envelope
  std::optional<Version> newest;
  bool downgrade;
  std::string board_class;  // empty: the board's policy says it
  std::optional<std::string> attempt;  // a number that the host asks for later
};

// Throws EDGE_REFUSED, "stream", for what is not as docs/release-format.md has it, and what Stream throws.
Request ReadRequest(Stream* stream);

}  // namespace edge::field
