// The step of an app's installation, on disk before the step begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "failure.h"
#include "field/place.h"

namespace edge::field {

// What went wrong, and in which step.
struct Cause {
  std::string code, step, message;
};

Cause CauseOf(const Failure& failure, const std::string& step);
// "null" where there is none.
std::string JsonCause(const std::optional<Cause>& cause);

struct State {
  // A step of docs/release-format.md; between installations "idle", or "broken".
  std::string step = "idle";
  // What is being installed, or was last, and the number that its host gave this attempt.
  std::optional<std::string> version, digest, attempt;
  // What both links name once what is cut in this step was ended.
  std::optional<std::string> current, previous;
  // The newest version that was ever committed here, for readers of edge-rt 0.1.0; else see newest.h.
  std::optional<std::string> newest;
  int64_t since = 0;  // seconds since 1970: when it was written
  std::optional<Cause> error;
  bool back = false;  // the step is that of a `rollback` that was decided, not of an installation that failed
  bool lost = false;  // the file could not be read; never written

  bool AtRest() const { return step == "idle" || step == "broken"; }
  // Whether the links may name something else than they did before.
  bool Switches() const { return step == "activate" || step == "health" || step == "commit" || step == "rollback"; }
};

// An app without one is idle. One that cannot be read, or is missing beside a release in use, is idle too, and lost; its links
// stay as they are.
State ReadState(const Place& place);

// Writes it, so that all that was changed in the app's folder before is on the disk as well.
void WriteState(const Place& place, State* state, std::string_view step);

}  // namespace edge::field
