// Who may sign what for a board. A trust is replaced by its successor alone, which the keys of both have signed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "field/envelope.h"

namespace edge::field {

struct Trust {
  std::string envelope;  // what trust.json holds
  std::string payload;
  int64_t version = 0;
  int64_t expires = 0;  // seconds since 1970
  Role root, release;
};

// A trust that its own root keys signed: a board's first, or the one that it keeps. It may have expired.
// Throws EDGE_REFUSED: "envelope", "trust", "signature", "threshold".
Trust ReadTrust(std::string_view envelope);

// The next trust. Throws as ReadTrust does; "trust" where it has another version than the next.
Trust Successor(const Trust& trust, std::string_view envelope);

// The newest trust after these envelopes, oldest first. Those that the board has already, up to the one that
// it trusts now, are passed over.
Trust Newest(const Trust& trust, const std::vector<std::string>& envelopes);

}  // namespace edge::field
