// How an installation or a way back ends: the same way at once, after a fault, and after a cut.
#pragma once

#include <optional>
#include <string>

#include "field/outcome.h"
#include "field/place.h"
#include "field/state.h"

namespace edge::field {

// Ends what a cut or a crash left in the middle: the links name again what its state says, and what it had made for itself is
// gone; parts that were received stay, unless it was decided. Returns the step that it was in; none if it had ended.
// Throws what Place::Check does, and what keeps the links or the state from being written: then nothing else may begin.
std::optional<std::string> Settle(const Place& place);

// Points `current` to the release that an installation found, which is then checked as if it came new: its digests and,
// if `test`, its self-test. Throws what fails.
void GoBack(const Place& place, const State& state, const std::string& measurements, bool test);

// What follows once a state on disk decided what both links name: they do, also after a cut, and then what no release needs
// any more goes. Throws what keeps the links from being written. What else fails is the state's error, and is done by the
// next installation.
void Complete(const Place& place, State* state);

// Goes back to `previous`, once that has passed its check: what works stays until then. `leaves`: the statement's digest of the
// release to be left, or the name of one that cannot be read; if it is not current any more, this was done already. Without it
// the one that is current is left, or the one that a rollback which was cut had begun to leave. Throws what is wrong while
// nothing has changed; all else is in the outcome.
void RollBack(const std::string& field, const std::string& measurements, const std::string& app,
              const std::optional<std::string>& leaves, Outcome* outcome);

// Removes what no release needs any more: parts that were received, releases beyond those that the policy keeps.
void Tidy(const Place& place);

}  // namespace edge::field
