#include "field/commands.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <new>
#include <optional>

#include "edge_rt.h"
#include "failure.h"
#include "field/disk.h"
#include "field/install.h"
#include "field/members.h"
#include "field/names.h"
#include "field/policy.h"
#include "field/prune.h"
#include "field/recover.h"
#include "field/status.h"
#include "field/trusted.h"
#include "field/turn.h"
#include "field/unpack.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr double kSilence_s = 60;

// The real path of the folder, made if it is missing. Others may read it: a service uses what is installed.
std::string Field(const Options& options) {
  const std::string path = options.Text("field", "");
  if (path.empty()) throw Usage("no --field given");
  umask(022);
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    MakeFolder(path.substr(0, end));
    if (end == path.npos) break;
  }
  char resolved[PATH_MAX];
  struct stat status {};
  if (realpath(path.c_str(), resolved) == nullptr || stat(resolved, &status) != 0) {
    ThrowDisk("cannot open ", path);
  }
  if (status.st_uid != geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    Throw(EDGE_FAILED, "field", {"user id ", geteuid(), " alone must own and write ", resolved,
                                 ": `chown` and `chmod go-w` it, or give another --field"});
  }
  return resolved;
}

std::string App(const Options& options) {
  const std::string app = options.Text("app", "");
  if (!IsAppName(app)) throw Usage(app.empty() ? "no --app given" : "--app " + app + ": no name of an app");
  return app;
}

int End(const Outcome& outcome) {
  Say("{" + outcome.Members() + "}");
  return outcome.code;
}

// The last line for what ended before the release's own end.
int Refuse(const Failure& failure, Outcome* outcome) {
  outcome->code = failure.code;
  outcome->cause = CauseOf(failure, "preflight");
  outcome->end = failure.Is(kLinkBroke) || failure.Is(kStopped) ? "interrupted" : "refused";
  return End(*outcome);
}

// Prints the last line of what `work` does; its exit code.
template <typename Work>
int Report(const Work& work) {
  Outcome outcome;
  try {
    work(&outcome);
  } catch (const Failure& failure) {
    return Refuse(failure, &outcome);
  } catch (const std::bad_alloc&) {
    return Refuse(Failure(EDGE_FAILED, "memory", kNoMemory), &outcome);
  }
  return End(outcome);
}

}  // namespace

int InstallCommand(const Options& options) {
  IgnoreHangups();
  const std::string field = Field(options), measurements = options.State(true);
  Stream stream(options.Only("release file, or - for the standard input"), options.Seconds("silence", kSilence_s));
  return Report([&](Outcome* outcome) { Install(field, measurements, &stream, outcome); });
}

int TrustCommand(const Options& options) {
  options.NoMore();
  const std::string field = Field(options);
  const std::string envelope = Stream("-", kSilence_s).All(kMostEnvelope);
  const Turn turn(field, "trust");
  const Trust trust = options.Has("first") ? Begin(field, envelope) : Advance(field, {envelope});
  Say(JsonTrust(trust));
  return EDGE_OK;
}

int StatusCommand(const Options& options) {
  options.NoMore();
  const std::string field = options.Text("field", "");
  if (field.empty()) throw Usage("no --field given");
  Say(Status(field));
  return EDGE_OK;
}

int RollBackCommand(const Options& options) {
  options.NoMore();
  IgnoreHangups();
  const std::string field = Field(options), app = App(options), leaves = options.Text("leave", "");
  const auto named = leaves.empty() ? std::nullopt : std::optional(leaves);
  return Report([&](Outcome* outcome) { RollBack(field, options.State(true), app, named, outcome); });
}

int PruneCommand(const Options& options) {
  options.NoMore();
  const std::string field = Field(options);
  const Place place(field, App(options));
  const Turn turn(field, "prune " + place.app);
  Settle(place);
  const std::vector<std::string> removed = Prune(place, ReadPolicy(place).keep);
  RemoveIncoming(place);
  Say("{\"removed\": " + JsonArray(removed) + "}");
  return EDGE_OK;
}

int RecoverCommand(const Options& options) {
  options.NoMore();
  const std::string field = Field(options);
  const Turn turn(field, "recover");
  std::string list;
  std::optional<Failure> failed;
  for (const std::string& app : Apps(field)) {
    const Place place(field, app);
    try {
      const auto step = Settle(place);
      if (!step) continue;
      JsonMembers members;
      members.Text("app", app).Text("step", *step).Text("state", ReadState(place).step);
      AppendTo(&list, members.TextOrNull("current", BundleOf(place, place.Named(kCurrent))).Object());
    } catch (const Failure& failure) {
      if (!failed) failed = failure;  // the others' are ended all the same
    }
  }
  if (failed) throw *failed;
  Say("{\"recovered\": [" + list + "]}");
  return EDGE_OK;
}

}  // namespace edge::field
