#include "field/recover.h"

#include "edge_rt.h"
#include "field/disk.h"
#include "field/journal.h"
#include "field/members.h"
#include "field/policy.h"
#include "field/prune.h"
#include "field/selftest.h"
#include "field/turn.h"
#include "field/unpack.h"
#include "text.h"

namespace edge::field {

void GoBack(const Place& place, const State& state, const std::string& measurements, bool test) {
  place.Name(kCurrent, state.current);
  SyncFolder(place.folder, "app");
  if (!state.current) return;
  const Release old = ReadInstalled(place, *state.current, true);
  std::optional<TestResult> result;
  if (test) SelfTest(place.Release(*state.current), old, measurements, &result);
}

constexpr const char* kTidying = "prune";  // the step of what only Tidy met

void Tidy(const Place& place) {
  RemoveIncoming(place);
  Prune(place, ReadPolicy(place).keep);
}

void Complete(const Place& place, State* state) {
  place.Name(kCurrent, state->current);
  place.Name(kPrevious, state->previous);
  // Before the state is at rest: nobody would mend a link that came later than it, or never.
  SyncFolder(place.folder, "links");
  state->error.reset();
  try {
    Tidy(place);
  } catch (const Failure& failure) {
    state->error = CauseOf(failure, kTidying);
  }
}

namespace {

void NoteSettled(const Place& place, const State& state) {
  JsonMembers members;
  members.Text("recovered", state.step).TextOrNull("version", state.version).TextOrNull("digest", state.digest);
  Note(place, members.TextOrNull("current", state.current).Value("cause", JsonCause(state.error)).text());
}

std::optional<std::string> SettleOnce(const Place& place) {
  State state = ReadState(place);
  const std::string step = state.step;
  IfPossible([&] { RemoveRests(place); });  // what is left of them is in nobody's way
  if (state.AtRest()) {
    if (state.error && state.error->step == kTidying) {
      IfPossible([&] {
        Tidy(place);
        state.error.reset();
        WriteState(place, &state, step);
      });
    }
    return std::nullopt;
  }
  std::string_view end = "idle";
  try {
    if (step == "commit" || state.back) {
      Complete(place, &state);
      if (state.back && state.current) ReadInstalled(place, *state.current, true);
    } else {
      state.error = Cause{"cut", step, "the installation was cut in its step " + step};
      place.Name(kPrevious, state.previous);
      GoBack(place, state, "", false);  // it was tested before the cut
    }
  } catch (const Failure& failure) {
    if (!failure.Is(kDamaged)) throw;
    state.error = CauseOf(failure, "rollback");
    end = "broken";
  }
  IfPossible([&] { NoteSettled(place, state); });
  WriteState(place, &state, end);
  return step;
}

}  // namespace

std::optional<std::string> Settle(const Place& place) {
  place.Check();
  try {
    return SettleOnce(place);
  } catch (const Failure& failure) {
    if (!failure.Is(kNoSpace)) throw;
  }
  RemoveIncoming(place);  // on a full disk what was received may be all that can go
  return SettleOnce(place);
}

namespace {

void Break(Outcome* outcome, const Failure& failure) {
  outcome->end = "broken";
  outcome->code = failure.code;
  outcome->cause = CauseOf(failure, "rollback");
}

// What is current must pass its check, as if it had been gone back to now.
void Confirm(const Place& place, const std::string& measurements, const std::string& now, Outcome* outcome) {
  outcome->digest = BundleOf(place, now);
  outcome->previous = BundleOf(place, place.Named(kPrevious));
  try {
    const Release release = ReadInstalled(place, now, true);
    outcome->version = release.version.text();
    outcome->digest = release.digest;
    SelfTest(place.Release(now), release, measurements, &outcome->test);
    outcome->end = "rolled-back";
  } catch (const Failure& failure) {
    Break(outcome, failure);
    State state = ReadState(place);
    state.error = outcome->cause;
    IfPossible([&] { WriteState(place, &state, "broken"); });
  }
}

// Whether the links are to be switched now: the state on disk says so, and `current` does. Throws where neither does.
bool Decide(const Place& place, State* state, const State& before, Outcome* outcome) {
  try {
    WriteState(place, state, "rollback");
    place.Name(kCurrent, state->current);
    return true;
  } catch (const Failure& failure) {
    State again = before;
    if (IfPossible([&] { WriteState(place, &again, before.step); }) || !ReadState(place).back) throw;
    Break(outcome, failure);  // `recover` will go back
    return false;
  }
}

}  // namespace

void RollBack(const std::string& field, const std::string& measurements, const std::string& app,
              const std::optional<std::string>& leaves, Outcome* outcome) {
  const Place place(field, app);
  const Turn turn(field, "rollback " + app);
  outcome->app = app;
  place.Check();
  const State cut = ReadState(place);
  try {
    Settle(place);
  } catch (const Failure& failure) {
    if (!cut.Switches()) throw;
    return Break(outcome, failure);
  }
  const auto now = place.Named(kCurrent), target = place.Named(kPrevious);
  const std::optional<Release> in_use = Kept(place, now);
  const bool left = leaves ? *leaves != now && (!in_use || *leaves != in_use->statement) : cut.Switches() && cut.step != "commit";
  if (now && left) return Confirm(place, measurements, *now, outcome);
  if (!target || target == now) Throw(EDGE_FAILED, "previous", {"there is no release of ", app, " to go back to"});
  const Release old = ReadInstalled(place, *target, true);
  SelfTest(place.Release(*target), old, measurements, &outcome->test);
  const State before = ReadState(place);
  State state = before;
  state.version = outcome->version = old.version.text();
  state.digest = outcome->digest = old.digest;
  state.current = target;
  state.previous = now;
  state.attempt.reset();
  state.error.reset();
  state.back = true;
  outcome->previous = BundleOf(place, now);
  if (!Decide(place, &state, before, outcome)) return;
  outcome->end = "rolled-back";
  try {
    Complete(place, &state);
    outcome->cause = state.error;
    IfPossible([&] { Note(place, outcome->Members()); });
    WriteState(place, &state, "idle");
  } catch (const Failure& failure) {  // `recover` goes on
    outcome->cause = CauseOf(failure, "rollback");
  }
}

}  // namespace edge::field
