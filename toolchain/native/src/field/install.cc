#include "field/install.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <optional>

#include "field/admit.h"
#include "field/disk.h"
#include "field/health.h"
#include "field/journal.h"
#include "field/newest.h"
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
    outcome_.attempt = request_.attempt;
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
    switches_ = ReadState(place_).Switches();
    Settle(place_);
    state_ = ReadState(place_);
    rest_ = state_.step;
    state_.current = place_.Named(kCurrent);
    state_.previous = place_.Named(kPrevious);
    state_.attempt = request_.attempt;
    const bool had_error = state_.error.has_value();
    state_.error.reset();  // of another installation
    known_ = true;
    const Trust trust = Advance(field_, request_.trust);
    release_ = ReadRelease(request_.release, trust, Now());
    name_ = NameOf(place_, release_);
    state_.version = outcome_.version = release_.version.text();
    state_.digest = outcome_.digest = release_.digest;
    policy_ = ReadPolicy(place_);
    Allow();
    if (IsWhole()) {
      Stay(had_error);
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
    Unpack(place_, name_, release_, *parts);
    IfPossible([&] { RemoveIncoming(place_); });  // the release has it all
    Begin("test");
    SelfTest(Folder(), release_, measurements_, &outcome_.test);
    if (state_.current != name_) {
      Begin("activate");
      return true;
    }
    Finish("installed");  // what was active was mended
    return false;
  }

  // Whether the release is current already, with nothing missing or changed.
  bool IsWhole() const {
    if (state_.current != name_ || rest_ != "idle") return false;
    const std::optional<Release> kept = Kept(place_, name_);
    return kept && kept->statement == release_.statement && Damage(Folder(), release_, true).empty();
  }

  // The end of what changes nothing, but for what an earlier command left.
  void Stay(bool had_error) {
    outcome_.end = "unchanged";
    outcome_.previous = BundleOf(place_, state_.previous);
    IfPossible([&] { KeepNewest(place_, state_, {release_.version, release_.statement}); });
    IfPossible([&] { Tidy(place_); });
    if (had_error) IfPossible([&] { WriteState(place_, &state_, "idle"); });
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
    if (const auto installed = Kept(place_, state_.current)) {  // one that is damaged may be replaced
      situation.installed = installed->version;
      situation.installed_statement = installed->statement;
    }
    situation.newest = request_.newest;
    const auto before = ReadNewest(place_, state_);
    if (before && (!situation.newest || !(before->version < *situation.newest))) {
      situation.newest = before->version;
      situation.newest_statement = before->statement;
    }
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
    Prune(place_, 0, name_);
    for (const std::string& name : Names(place_.Incoming())) {
      const auto has = [&](const Part& part) { return part.sha256 == name; };
      if (std::none_of(release_.parts.begin(), release_.parts.end(), has)) Remove(place_.Incoming() + "/" + name);
    }
  }

  void CheckSpace(int64_t missing) {
    if (HasSpace(missing)) return;
    Throw(EDGE_FAILED, kNoSpace, {"the release needs ", missing + kSpare, " bytes in ", field_, ", and ",
                                 FreeBytes(place_.folder), " are free"});
  }

  // From here on `current` names the new release, and the state on disk the old one until the commit.
  void Activate() {
    place_.Name(kCurrent, name_);
    Enter("health");
    AskHealth(place_, policy_);
    Step("commit");
    KeepNewest(place_, state_, {release_.version, release_.statement});
    State committed = state_;
    committed.previous = state_.current;
    committed.current = name_;
    if (const auto newest = ReadNewest(place_, state_)) committed.newest = newest->version.text();
    WriteState(place_, &committed, "commit");
    state_ = committed;
  }

  void StopBefore(const Failure& failure) {
    const bool goes_on = failure.Is(kLinkBroke) || failure.Is(kStopped) || failure.Is(kResumed) ||
                         (step_ == "receive" && failure.code == EDGE_FAILED);
    Fail(failure);
    // What was cut before could not be ended, and may be in use.
    if (!known_ && switches_ && !failure.Is(kFolder)) return Record("broken", "");
    IfPossible([&] { RemoveRests(place_); });
    Record(goes_on ? "interrupted" : "refused", rest_);
  }

  void StopAfter(const Failure& failure) {
    Fail(failure);
    Step("rollback");
    if (!IfPossible([&] { WriteState(place_, &state_, "rollback"); }) && IsCommitted()) {
      outcome_.code = EDGE_OK;  // it was written, and what failed is whether that lasts
      return Finish("installed");
    }
    std::string_view rest = "idle";
    try {
      GoBack(place_, state_, measurements_, true);
    } catch (const Failure& second) {
      outcome_.rollback = CauseOf(second, "rollback");
      rest = place_.Named(kCurrent) == state_.current ? "broken" : "";  // "": `recover` tries again
    }
    Record(outcome_.rollback ? "broken" : "rolled-back", rest);
  }

  // Whether the state on disk is the commit's: `recover` would end it so.
  bool IsCommitted() {
    const State there = ReadState(place_);
    if (there.step != "commit") return false;
    state_ = there;
    return true;
  }

  // What was installed stays so: what fails now is the outcome's cause, and `recover` or the next installation does it.
  void Finish(std::string_view end) {
    IfPossible([&] { KeepNewest(place_, state_, {release_.version, release_.statement}); });  // where a mended one was not kept
    std::string_view rest = "idle";
    try {
      Complete(place_, &state_);
    } catch (const Failure& failure) {
      state_.error = CauseOf(failure, step_);
      rest = "";
    }
    if (state_.error && !outcome_.cause) outcome_.cause = state_.error;
    Record(end, rest);
  }

  void Fail(const Failure& failure) {
    outcome_.code = failure.code;
    outcome_.cause = state_.error = CauseOf(failure, step_);
  }

  // Journal and state at the end. What fails here is ended by the next command; what is there then is the outcome's, too.
  void Record(std::string_view end, std::string_view rest) {
    outcome_.end = end;
    outcome_.previous = BundleOf(place_, state_.previous);
    if (!known_ || FileSize(place_.Path("state")) < 0) return;  // nothing was begun
    if (!Write(rest)) {
      IfPossible([&] { RemoveIncoming(place_); });  // on a full disk the cause is worth more than what was received
      Write(rest);
    }
  }

  // False where there was no space.
  bool Write(std::string_view rest) {
    try {
      Note(place_, outcome_.Members());
      if (!rest.empty()) WriteState(place_, &state_, rest);
    } catch (const Failure& failure) {
      if (!outcome_.cause) outcome_.cause = CauseOf(failure, step_);
      if (failure.Is(kNoSpace)) return false;
      if (!rest.empty()) IfPossible([&] { WriteState(place_, &state_, rest); });  // without its line in the journal
    }
    return true;
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

  std::string Folder() const { return place_.Release(name_); }

  const std::string& field_;
  const std::string& measurements_;
  const Request& request_;
  Stream* stream_;
  Outcome& outcome_;
  const Place place_;
  Policy policy_;
  Release release_;
  std::string name_;  // of its folder
  State state_;
  std::string rest_ = "idle";  // the state's step between installations
  bool known_ = false;         // `state_` is the app's
  bool switches_ = false;      // what was cut before may have changed the links
  std::string step_;           // that was begun last
};

}  // namespace

void Install(const std::string& field, const std::string& measurements, Stream* stream, Outcome* outcome) {
  const Request request = ReadRequest(stream);
  outcome->app = request.app;
  const Turn turn(field, "install " + request.app);
  Installation(field, measurements, request, stream, outcome).Run();
}

}  // namespace edge::field
