#include "field/state.h"

#include "field/disk.h"
#include "field/json.h"
#include "field/seam.h"
#include "text.h"

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
  return Cat({"{\"code\": ", Quote(cause->code), ", \"step\": ", Quote(cause->step), ", \"message\": ",
              Quote(cause->message.empty() ? "?" : cause->message), "}"});
}

std::string JsonText(const std::optional<std::string>& text) { return text ? Quote(*text) : "null"; }

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
  return state;
}

void WriteState(const Place& place, State* state, const std::string& step) {
  state->step = step;
  state->since = Now();
  Replace(place.Path("state"),
          Cat({"{\"step\": ", Quote(step), ", \"version\": ", JsonText(state->version), ", \"digest\": ",
               JsonText(state->digest), ", \"current\": ", JsonText(state->current), ", \"previous\": ",
               JsonText(state->previous), ", \"newest\": ", JsonText(state->newest), ", \"since\": ", state->since,
               ", \"error\": ", JsonCause(state->error), "}\n"}),
          "state");
  SyncFolder(place.folder, "app");
  Reach(step.c_str());
}

}  // namespace edge::field
