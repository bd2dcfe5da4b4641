#include "offline/command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "cpu.h"
#include "device.h"
#include "edge_rt.h"
#include "failure.h"
#include "lock.h"
#include "offline/plan.h"
#include "offline/results.h"
#include "offline/trial.h"
#include "queue.h"
#include "text.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;
using offline::Outcome;

// How long others may measure in between before this command ends.
constexpr double kOthersSeconds = 3600;

void Tell(size_t number, size_t count, const std::string& name, const Outcome& outcome) {
  std::string said = outcome.status + ": " + outcome.message;
  if (outcome.status == "ok" && outcome.timed.modelled) said = Cat({outcome.timed.modelled->cycles, " cycles by its model"});
  if (outcome.status == "ok" && !outcome.timed.modelled) said = JsonNumber(outcome.timed.ms[0]) + " ms";
  std::fprintf(stderr, "%zu/%zu %s: %s\n", number, count, name.c_str(), said.substr(0, said.find('\n')).c_str());
}

// The board's lock, which those that wait for it have between two candidates.
class Turn {
 public:
  Turn(const Options& options, const std::string& state, const std::string& folder)
      : state_(state), what_("measure " + folder), whom_(ForWhom(options)) {
    lock_.emplace(state_, what_, options.Seconds("wait", 0), whom_);
  }

  // False if the turn did not come back within so many seconds.
  bool Pass(double seconds) {
    const size_t others = Waiters(state_).size();
    if (others == 0) return true;
    std::fprintf(stderr, "others wait for this board (%zu): it is their turn\n", others);
    lock_.reset();
    try {
      lock_.emplace(state_, what_, seconds, whom_);
    } catch (const Failure& failure) {
      if (failure.code != EDGE_BUSY) throw;
      std::fprintf(stderr, "%s\n", failure.what());
    }
    return lock_.has_value();
  }

 private:
  const std::string state_, what_, whom_;
  std::optional<MeasureLock> lock_;
};

// As before a live run: what fails here would fail with each candidate.
void Probe(const offline::Plan& plan, const std::string& device) {
  const Outcome outcome = offline::Try(plan, plan.candidates.front(), device);
  if (outcome.status == "ok") return;
  throw Failure(EDGE_FAILED, "probe", "a known-good kernel fails here, before anything is measured: " + outcome.status + ": " +
                                          outcome.message);
}

}  // namespace

int MeasureCommand(const Options& options) {
  const double budget = options.Seconds("time", 1e9);
  const std::string folder = options.Only("folder of candidates"), state = options.State(true);
  const offline::Plan plan = offline::ReadPlan(folder);
  CheckFeatures(plan.requirements);
  const std::string device = options.Text("device", plan.device);
  if (device.substr(0, device.find(':')) != plan.device.substr(0, plan.device.find(':'))) {
    throw Usage("--device " + device + ": the candidates are for " + plan.device);
  }
  SetDeviceFolder(state + "/devices", false);
  Turn turn(options, state, folder);
  offline::Results results(plan);
  const auto begin = Clock::now();
  const auto rest = [&] { return budget - std::chrono::duration<double>(Clock::now() - begin).count(); };
  if (plan.probed) Probe(plan, device);
  const size_t first = plan.probed ? 1 : 0, count = plan.candidates.size() - first;
  bool ended = false;
  size_t measured = 0, failed = 0, before = 0, left = 0;
  for (size_t at = first; at < plan.candidates.size(); ++at) {
    const offline::Candidate& candidate = plan.candidates[at];
    if (results.Has(candidate.digest)) {
      ++before;
      continue;
    }
    if (ended || rest() <= 0 || (measured > 0 && !turn.Pass(std::min(rest(), kOthersSeconds)))) {
      ended = true;
      ++left;
      continue;
    }
    const Outcome outcome = offline::Try(plan, candidate, device);
    results.Add(candidate.digest, offline::Line(candidate, outcome));
    ++measured;
    failed += outcome.status != "ok";
    Tell(at + 1 - first, count, candidate.name, outcome);
  }
  std::printf("{\"candidates\": %zu, \"measured\": %zu, \"failed\": %zu, \"before\": %zu, \"left\": %zu, \"results\": %s, "
              "\"caches_flushed\": false}\n",
              count, measured, failed, before, left, Quote(results.path()).c_str());
  return EDGE_OK;
}

}  // namespace edge
