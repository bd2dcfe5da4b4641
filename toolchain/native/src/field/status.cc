#include "field/status.h"

#include <algorithm>

#include "field/disk.h"
#include "field/names.h"
#include "field/state.h"
#include "field/trusted.h"
#include "field/turn.h"
#include "field/unpack.h"
#include "text.h"

namespace edge::field {
namespace {

std::string InstalledVersion(const Place& place, const std::string& digest) {
  try {
    return Quote(ReadInstalled(place, digest, false).version.text());
  } catch (const Failure&) {
    return "null";
  }
}

// A word for people and programs; `at_work` is whether an installation runs.
std::string Word(const State& state, bool installed, bool at_work) {
  if (!state.AtRest()) return at_work ? "installing" : "cut";
  if (state.step == "broken") return "broken";
  return installed ? "active" : "none";
}

std::string AppStatus(const Place& place, bool at_work) {
  const State state = ReadState(place);
  const auto current = place.Named(kCurrent);
  int64_t incoming = 0;
  for (const std::string& name : Names(place.Incoming())) {
    incoming += std::max<int64_t>(0, FileSize(place.Incoming() + "/" + name));
  }
  return Cat({"{\"app\": ", Quote(place.app), ", \"state\": ", Quote(Word(state, current.has_value(), at_work)),
              ", \"step\": ", Quote(state.step), ", \"version\": ", current ? InstalledVersion(place, *current) : "null",
              ", \"digest\": ", JsonText(current), ", \"previous\": ", JsonText(place.Named(kPrevious)),
              ", \"newest\": ", JsonText(state.newest), ", \"since\": ", state.since, ", \"incoming\": ", incoming,
              ", \"tried\": ", state.digest ? Cat({"{\"version\": ", JsonText(state.version), ", \"digest\": ",
                                                  JsonText(state.digest), "}"}) : "null",
              ", \"error\": ", JsonCause(state.error), "}"});
}

}  // namespace

std::vector<std::string> Apps(const std::string& field) {
  std::vector<std::string> apps;
  for (const std::string& name : Names(field)) {
    if (IsAppName(name) && FileSize(Place(field, name).Path("state")) >= 0) apps.push_back(name);
  }
  return apps;
}

std::string Status(const std::string& field) {
  const std::string at_work = AtWork(field);
  std::string apps, trust = "null";
  for (const std::string& app : Apps(field)) {
    apps += (apps.empty() ? "" : ", ") + AppStatus(Place(field, app), at_work != "null");
  }
  try {
    const Trust stored = StoredTrust(field);
    trust = Cat({"{\"version\": ", stored.version, ", \"expires\": ", stored.expires, "}"});
  } catch (const Failure& failure) {
    if (failure.kind != "trust") throw;
  }
  return "{\"apps\": [" + apps + "], \"trust\": " + trust + ", \"at_work\": " + at_work + "}";
}

}  // namespace edge::field
