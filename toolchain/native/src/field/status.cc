#include "field/status.h"

#include <algorithm>

#include "field/disk.h"
#include "field/members.h"
#include "field/names.h"
#include "field/newest.h"
#include "field/state.h"
#include "field/trusted.h"
#include "field/turn.h"
#include "field/unpack.h"
#include "text.h"

namespace edge::field {
namespace {

std::optional<Release> Installed(const Place& place, const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  try {
    return ReadInstalled(place, *name, false);
  } catch (const Failure&) {
    return std::nullopt;
  }
}

// A word for people and programs; `at_work` is whether an installation runs.
const char* Word(const State& state, bool installed, bool at_work) {
  if (!state.AtRest()) return at_work ? "installing" : "cut";
  if (state.step == "broken") return "broken";
  return installed ? "active" : "none";
}

std::string AppStatus(const Place& place, bool at_work) {
  State state = ReadState(place);
  std::optional<std::string> newest;
  try {
    place.Check();
    if (const auto kept = ReadNewest(place, state)) newest = kept->version.text();
  } catch (const Failure& failure) {  // the next installation is refused for it
    state.error = CauseOf(failure, "preflight");
  }
  const auto current = place.Named(kCurrent);
  const std::optional<Release> installed = Installed(place, current);
  int64_t incoming = 0;
  for (const std::string& name : Names(place.Incoming())) {
    incoming += std::max<int64_t>(0, FileSize(place.Incoming() + "/" + name));
  }
  JsonMembers members, tried;
  tried.TextOrNull("version", state.version).TextOrNull("digest", state.digest).TextOrNull("attempt", state.attempt);
  members.Text("app", place.app).Text("state", Word(state, current.has_value(), at_work)).Text("step", state.step);
  members.TextOrNull("version", installed ? std::optional(installed->version.text()) : std::nullopt);
  members.TextOrNull("digest", BundleOf(place, current));
  members.TextOrNull("statement", installed ? std::optional(installed->statement) : std::nullopt);
  members.TextOrNull("previous", BundleOf(place, place.Named(kPrevious))).TextOrNull("newest", newest).Number("since", state.since);
  members.Number("incoming", incoming).Value("tried", state.digest ? tried.Object() : "null");
  return members.Value("error", JsonCause(state.error)).Object();
}

}  // namespace

std::vector<std::string> Apps(const std::string& field) {
  std::vector<std::string> apps;
  for (const std::string& name : Names(field)) {
    const Place place(field, name);
    if (IsAppName(name) && (FileSize(place.Path("state")) >= 0 || place.Named(kCurrent))) apps.push_back(name);
  }
  return apps;
}

std::string Status(const std::string& field) {
  const std::string at_work = AtWork(field);
  std::string apps, trust = "null";
  for (const std::string& app : Apps(field)) {
    AppendTo(&apps, AppStatus(Place(field, app), at_work != "null"));
  }
  try {
    const Trust stored = StoredTrust(field);
    trust = JsonTrust(stored);
  } catch (const Failure& failure) {
    if (!failure.Is(kTrust)) throw;
  }
  return JsonMembers().Value("apps", Cat({"[", apps, "]"})).Value("trust", trust).Value("at_work", at_work).Object();
}

}  // namespace edge::field
