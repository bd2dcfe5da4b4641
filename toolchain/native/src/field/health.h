// The command of policy.json that says whether the app works with what was activated.
#pragma once

#include "field/place.h"
#include "field/policy.h"

namespace edge::field {

// Asks until it ends with 0, as often as the policy says; it knows the app from EDGE_APP, the release's folder from
// EDGE_CURRENT. No shell reads it. Throws EDGE_FAILED with its output's last line: "health", or "health-timeout". All that it
// started in its process group ends with it.
void AskHealth(const Place& place, const Policy& policy);

}  // namespace edge::field
