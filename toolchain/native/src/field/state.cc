#include "field/state.h"

#include "field/disk.h"
#include "field/members.h"
#include "field/seam.h"
#include "json.h"

namespace edge::field {
namespace {

constexpr size_t kMostState = 16384;   // bytes
constexpr size_t kMostMessage = 1000;  // bytes of a cause's

std::optional<std::string> TextOrNull(const Node& node) {
  if (node.IsNull()) return std::nullopt;
  return node.Text(kMostState);
}

State Parse(const std::string& text) {
  const Json json = ReadJson(text, "state");
  const Node node(json, "state");
  State state;
  state.step = node["step"].Text(20);
  state.version = TextOrNull(node["version"]);
  state.digest = TextOrNull(node["digest"]);
  state.current = TextOrNull(node["current"]);
  state.previous = TextOrNull(node["previous"]);
  state.newest = TextOrNull(node["newest"]);
  if (node.Has("attempt")) state.attempt = TextOrNull(node["attempt"]);
  // Edge-rt 0.1.0 says it by the release alone: an installation goes back to another one than it tried.
  state.back = state.step == "rollback" && (node.Has("back") ? node["back"].Bool() : state.digest && state.digest == state.current);
  state.since = node["since"].Int(0, kLargest);
  if (const Node error = node["error"]; !error.IsNull()) {
    state.error = Cause{error["code"].Text(100), error["step"].Text(20), error["message"].Text(kMostState)};
  }
  return state;
}

}  // namespace

Cause CauseOf(const Failure& failure, const std::string& step) {
  return {failure.kind, step, std::string(failure.what()).substr(0, kMostMessage)};
}

std::string JsonCause(const std::optional<Cause>& cause) {
  if (!cause) return "null";
  const std::string& message = cause->message;
  return JsonMembers().Text("code", cause->code).Text("step", cause->step).Text("message", message.empty() ? "?" : message).Object();
}

State ReadState(const Place& place) {
  if (const auto text = ReadSmall(place.Path("state"), kMostState)) {
    try {
      return Parse(*text);
    } catch (const Failure&) {
    }
  }
  State state;
  state.current = place.Named(kCurrent);
  state.previous = place.Named(kPrevious);
  state.lost = state.current || FileSize(place.Path("state")) >= 0;
  return state;
}

void WriteState(const Place& place, State* state, std::string_view step) {
  state->step = step;
  state->since = Now();
  JsonMembers members;
  members.Text("step", step).TextOrNull("version", state->version).TextOrNull("digest", state->digest);
  members.TextOrNull("current", state->current).TextOrNull("previous", state->previous);
  members.TextOrNull("newest", state->newest).Number("since", state->since).Value("error", JsonCause(state->error));
  members.TextOrNull("attempt", state->attempt).Value("back", state->back && step == "rollback" ? "true" : "false");
  Replace(place.Path("state"), members.Object() + "\n", "state");
  SyncFolder(place.folder, "app");
  Reach(state->step.c_str());
}

}  // namespace edge::field
