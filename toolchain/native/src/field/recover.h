// What is done about an installation that did not come to its end.
#pragma once

#include <optional>
#include <string>

#include "field/place.h"
#include "field/state.h"

namespace edge::field {

// Ends an installation that a cut or a crash left in the middle: the links name again what its state says, and what it had
// made for itself is gone; parts that were received stay. Returns the step that it was in; none if it had ended.
std::optional<std::string> Settle(const Place& place);

// Points `current` to the release that an installation found, which is then checked as if it came new: its digests and,
// if `test`, its self-test. Throws what fails.
void GoBack(const Place& place, const State& state, const std::string& measurements, bool test);

}  // namespace edge::field
