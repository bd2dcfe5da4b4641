#include "field/recover.h"

#include "field/disk.h"
#include "field/journal.h"
#include "field/members.h"
#include "field/selftest.h"
#include "field/unpack.h"

namespace edge::field {

void GoBack(const Place& place, const State& state, const std::string& measurements, bool test) {
  place.Name(kCurrent, state.current);
  SyncFolder(place.folder, "app");
  if (!state.current) return;
  const Release old = ReadInstalled(place, *state.current, true);
  std::optional<TestResult> result;
  if (test) SelfTest(place.Release(old.digest), old, measurements, &result);
}

namespace {

std::optional<std::string> SettleOnce(const Place& place) {
  State state = ReadState(place);
  if (state.AtRest()) {
    RemoveRests(place);  // of a step that had not begun
    return std::nullopt;
  }
  const std::string step = state.step;
  std::string_view end = "idle";
  place.Name(kPrevious, state.previous);
  if (step == "commit") {
    place.Name(kCurrent, state.current);
    RemoveIncoming(place);
  } else {
    state.error = Cause{"cut", step, "the installation was cut in its step " + step};
    try {
      GoBack(place, state, "", false);  // it was tested before the cut
    } catch (const Failure& failure) {
      if (failure.kind != "damaged") throw;
      state.error = CauseOf(failure, "rollback");
      end = "broken";
    }
  }
  RemoveRests(place);
  JsonMembers members;
  members.Text("recovered", step).TextOrNull("version", state.version).TextOrNull("digest", state.digest);
  Note(place, members.TextOrNull("current", state.current).Value("cause", JsonCause(state.error)).text());
  WriteState(place, &state, end);
  return step;
}

}  // namespace

std::optional<std::string> Settle(const Place& place) {
  try {
    return SettleOnce(place);
  } catch (const Failure& failure) {
    if (failure.kind != "space") throw;
  }
  RemoveIncoming(place);  // on a full disk what was received may be all that can go
  return SettleOnce(place);
}

}  // namespace edge::field
