// The board's trust on disk.
#pragma once

#include <string>
#include <vector>

#include "field/trust.h"

namespace edge::field {

// Throws EDGE_REFUSED, "trust", where the board has none.
Trust StoredTrust(const std::string& field);

// Its version and when it expires.
std::string JsonTrust(const Trust& trust);

// The newest trust after these envelopes, which is kept.
Trust Advance(const std::string& field, const std::vector<std::string>& envelopes);

// The board's first trust, or the same again.
Trust Begin(const std::string& field, const std::string& envelope);

}  // namespace edge::field
