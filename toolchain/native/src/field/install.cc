#include "field/install.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <optional>

#include "field/admit.h"
#include "field/disk.h"
#include "field/health.h"
#include "field/journal.h"
#include "field/parts.h"
#include "field/policy.h"
#include "field/prune.h"
#include "field/recover.h"
#include "field/request.h"
#include "field/seam.h"
#include "field/trusted.h"
#include "field/turn.h"
#include "field/unpack.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr int64_t kSpare = int64_t{1} << 20;  // bytes beyond the parts: folders, state, journal

// What may fail without changing how the installation ended.
template <typename Work>
void IfPossible(const Work& work) {
  try {
    work();
  } catch (const Failure&) {
  }
}

std::optional<Version> VersionOf(const Place& place, const std::optional<std::string>& digest) {
  if (!digest) return std::nullopt;
  try {
    return ReadKept(ReadSmall(place.Release(*digest) + "/release.json", kMostEnvelope).value_or("")).version;
  } catch (const Failure&) {
    return std::nullopt;  // it is damaged, and may be replaced
  }
}

int64_t FreeBytes(const std::string& folder) {
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) ThrowDisk("cannot ask for the space in ", folder);
  return static_cast<int64_t>(disk.f_bavail) * disk.f_frsize;
}

class Installation {
 public:
  Installation(const std::string& field, const std::string& measurements, const Request& request, Stream* stream,
               Outcome* outcome)
      : field_(field),
        measurements_(measurements),
        request_(request),
        stream_(stream),
        outcome_(*outcome),
        place_(field, request.app) {}

  void Run() {
    try {
      if (!Prepare()) return;
    } catch (const Failure& failure) {
      return StopBefore(failure);
    }
    try {
      Activate();
    } catch (const Failure& failure) {
      return StopAfter(failure);
    }
    Finish("installed");
  }

 private:
  // The steps until everything is proved. False if nothing is left to do.
  bool Prepare() {
    Step("preflight");
    Settle(place_);
    state_ = ReadState(place_);
    rest_ = state_.step;
    state_.current = place_.Named(kCurrent);
    state_.previous = place_.Named(kPrevious);
    known_ = true;
    const Trust trust = Advance(field_, request_.trust);
    release_ = ReadRelease(request_.release, trust, Now());
    state_.version = outcome_.version = release_.version.text();
    state_.digest = outcome_.digest = release_.digest;
    policy_ = ReadPolicy(place_);
    Allow();
    if (state_.current == release_.digest && rest_ == "idle" && Damage(Folder(), release_, false).empty()) {
      outcome_.end = "unchanged";
      outcome_.previous = state_.previous;
      return false;
    }
    CheckRuntimeApart(release_, measurements_);
    MakeFolders();
    std::optional<Parts> parts(std::in_place, place_, release_);
    if (!HasSpace(parts->Missing())) {
      MakeSpace();
      parts.emplace(place_, release_);  // some were found in what is gone
      CheckSpace(parts->Missing());
    }
    Begin("receive");
    try {
      parts->Receive(stream_);
    } catch (const Failure&) {
      outcome_.received = parts->received();
      throw;
    }
    outcome_.received = parts->received();
    Begin("check");
    parts->Check();
    Begin("unpack");
    Unpack(place_, release_, *parts);
    Begin("test");
    SelfTest(Folder(), release_, measurements_, &outcome_.test);
    if (state_.current != release_.digest) {
      Begin("activate");
      return true;
    }
    Finish("installed");  // what was active was mended
    return false;
  }

  void Allow() {
    if (release_.app != request_.app) {
      Throw(EDGE_REFUSED, "app", {"the release is for ", release_.app, ", not for ", request_.app});
    }
    const std::string& said = request_.board_class;
    const std::string& own = policy_.board_class;
    if (!said.empty() && !own.empty() && said != own) {
      Throw(EDGE_REFUSED, "class", {"this board is of class ", own, ", and the host says ", said});
    }
    Situation situation;
    situation.board_class = !own.empty() ? own : !said.empty() ? said : NotedClass(field_);
    situation.installed = VersionOf(place_, state_.current);
    situation.installed_digest = state_.current.value_or("");
    situation.newest = request_.newest;
    const auto before = state_.newest ? Version::Read(*state_.newest) : std::nullopt;
    if (before && (!situation.newest || *situation.newest < *before)) situation.newest = before;
    situation.downgrade = request_.downgrade && policy_.downgrade;
    Admit(release_, situation);
  }

  void MakeFolders() {
    if (MakeFolder(place_.folder)) SyncFolder(field_, "field");
    MakeFolder(place_.Releases());
    MakeFolder(place_.Incoming());
  }

  bool HasSpace(int64_t missing) const { return FreeBytes(place_.folder) >= missing + kSpare; }

  void MakeSpace() {
    Prune(place_, 0, release_.digest);
    for (const std::string& name : Names(place_.Incoming())) {
      const auto has = [&](const Part& part) { return part.sha256 == name; };
      if (std::none_of(release_.parts.begin(), release_.parts.end(), has)) Remove(place_.Incoming() + "/" + name);
    }
  }

  void CheckSpace(int64_t missing) {
    if (HasSpace(missing)) return;
    Throw(EDGE_FAILED, "space", {"the release needs ", missing + kSpare, " bytes in ", field_, ", and ",
                                 FreeBytes(place_.folder), " are free"});
  }

  // From here on `current` names the new release, and the state on disk the old one until the commit.
  void Activate() {
    place_.Name(kCurrent, release_.digest);
    Enter("health");
    AskHealth(place_, policy_);
    Step("commit");
    State committed = state_;
    committed.previous = state_.current;
    committed.current = release_.digest;
    const auto newest = state_.newest ? Version::Read(*state_.newest) : std::nullopt;
    if (!newest || *newest < release_.version) committed.newest = release_.version.text();
    committed.error.reset();
    WriteState(place_, &committed, "commit");
    state_ = committed;
  }

  void StopBefore(const Failure& failure) {
    const std::string& kind = failure.kind;
    const bool goes_on = kind == "link" || kind == "stopped" || kind == "resumed" ||
                         (step_ == "receive" && failure.code == EDGE_FAILED);
    Fail(failure);
    IfPossible([&] { RemoveRests(place_); });
    Record(goes_on ? "interrupted" : "refused", rest_);
  }

  void StopAfter(const Failure& failure) {
    Fail(failure);
    Step("rollback");
    IfPossible([&] { WriteState(place_, &state_, "rollback"); });
    std::string_view rest = "idle";
    try {
      GoBack(place_, state_, measurements_, true);
    } catch (const Failure& second) {
      outcome_.rollback = CauseOf(second, "rollback");
      rest = place_.Named(kCurrent) == state_.current ? "broken" : "";  // "": `recover` tries again
    }
    Record(outcome_.rollback ? "broken" : "rolled-back", rest);
  }

  void Finish(std::string_view end) {
    state_.error.reset();
    IfPossible([&] { place_.Name(kPrevious, state_.previous); });
    IfPossible([&] { RemoveIncoming(place_); });
    Record(end, "idle");
    IfPossible([&] { Prune(place_, policy_.keep); });
  }

  void Fail(const Failure& failure) {
    outcome_.code = failure.code;
    outcome_.cause = state_.error = CauseOf(failure, step_);
  }

  // Journal and state at the end. What fails here is ended by the next installation.
  void Record(std::string_view end, std::string_view rest) {
    outcome_.end = end;
    outcome_.previous = state_.previous;
    if (!known_ || FileSize(place_.Path("state")) < 0) return;  // nothing was begun
    IfPossible([&] {
      Note(place_, outcome_.Members());
      if (!rest.empty()) WriteState(place_, &state_, rest);
    });
  }

  void Step(const char* step) {
    step_ = step;
    Say(Cat({"{\"step\": \"", step, "\"}"}));
  }

  // A step that is on disk before it begins.
  void Begin(const char* step) {
    StopIfAsked();
    Enter(step);
  }

  // One that nobody stops.
  void Enter(const char* step) {
    Step(step);
    WriteState(place_, &state_, step);
  }

  std::string Folder() const { return place_.Release(release_.digest); }

  const std::string& field_;
  const std::string& measurements_;
  const Request& request_;
  Stream* stream_;
  Outcome& outcome_;
  const Place place_;
  Policy policy_;
  Release release_;
  State state_;
  std::string rest_ = "idle";  // the state's step between installations
  bool known_ = false;         // `state_` is the app's
  std::string step_;           // that was begun last
};

}  // namespace

void Install(const std::string& field, const std::string& measurements, Stream* stream, Outcome* outcome) {
  const Request request = ReadRequest(stream);
  outcome->app = request.app;
  const Turn turn(field, "install " + request.app);
  Installation(field, measurements, request, stream, outcome).Run();
}

void RollBack(const std::string& field, const std::string& measurements, const std::string& app, Outcome* outcome) {
  const Place place(field, app);
  const Turn turn(field, "rollback " + app);
  outcome->app = app;
  Settle(place);
  const auto now = place.Named(kCurrent), target = place.Named(kPrevious);
  if (!target) Throw(EDGE_FAILED, "previous", {"there is no release of ", app, " to go back to"});
  const Release old = ReadInstalled(place, *target, true);
  SelfTest(place.Release(old.digest), old, measurements, &outcome->test);
  State state = ReadState(place);
  state.version = outcome->version = old.version.text();
  state.digest = outcome->digest = state.current = target;
  state.previous = outcome->previous = now;
  state.error.reset();
  WriteState(place, &state, "rollback");
  place.Name(kCurrent, target);
  place.Name(kPrevious, now);
  outcome->end = "rolled-back";
  Note(place, outcome->Members());
  WriteState(place, &state, "idle");
}

}  // namespace edge::field
