#include "field/selftest.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>

#include "apart.h"
#include "edge_rt.h"
#include "failure.h"
#include "field/compare.h"
#include "field/disk.h"
#include "field/members.h"
#include "memory.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr double kDriverPatience_s = 60;
constexpr size_t kMostAnswer = 16384;  // bytes
constexpr char kDone[] = "done ";

// The kernel ends the test and not the installer where memory runs out.
void DieFirst() {
  try {
    Handle("/proc/self/oom_score_adj", O_WRONLY).Write("1000");
  } catch (const Failure&) {
  }
}

// "done", then what `work` returned, or the failure's code, kind and words.
std::string Answer(const std::function<std::string()>& work) {
  DieFirst();
  try {
    return kDone + work();
  } catch (const Failure& failure) {
    return Cat({failure.code, " ", failure.kind, " ", failure.what()});
  } catch (const std::bad_alloc&) {
    return Cat({int{EDGE_REFUSED}, " memory ", kNoMemory});
  }
}

// What it returned. Throws what it threw, and "crash" or "timeout".
std::string Apart(const std::function<std::string()>& work, double seconds, const std::string& what) {
  const Ended ended = RunApart([&] { return Answer(work); }, seconds, kMostAnswer);
  if (!ended.in_time) {
    Throw(EDGE_REFUSED, "timeout", {what, " had not ended after ", static_cast<int64_t>(seconds), " s"});
  }
  if (ended.signal != 0) Throw(EDGE_REFUSED, "crash", {what, " was ended by: ", strsignal(ended.signal)});
  const std::string& answer = ended.answer;
  if (answer.starts_with(kDone)) return answer.substr(sizeof kDone - 1);
  char kind[41] = "";
  int code = 0, at = 0;
  if (std::sscanf(answer.c_str(), "%3d %40s %n", &code, kind, &at) != 2 || at == 0) {
    Throw(EDGE_REFUSED, "crash", {what, " ended with exit code ", ended.code});
  }
  throw Failure(code, kind, answer.substr(at));
}

// Error, latency, memory and, if outputs are wrong, why.
std::string Work(const std::string& folder, const Release& release, const std::string& state) {
  Computed computed = Compute(folder, release, state);
  const auto memory_kib = static_cast<int64_t>(PeakRssMib() * 1024);
  std::vector<double>& times = computed.runs_us;
  // By libc's: std::sort would be 4 KB of code more.
  std::qsort(times.data(), times.size(), sizeof(double), [](const void* one, const void* other) {
    return (*static_cast<const double*>(one) > *static_cast<const double*>(other)) -
           (*static_cast<const double*>(one) < *static_cast<const double*>(other));
  });
  const double median = (times[times.size() / 2] + times[(times.size() - 1) / 2]) / 2;
  int64_t worst = -1;
  std::string problem;
  if (computed.outputs.size() != release.test.outputs.size()) {
    problem = Cat({Counted(static_cast<int64_t>(computed.outputs.size()), "output"), " instead of ", release.test.outputs.size()});
  }
  for (size_t i = 0; i < release.test.outputs.size() && problem.empty(); ++i) {
    const Array expected = ReadNpy(Cat({folder, "/expected/", i, ".npy"}));
    const Deviation deviation = Compare(release.test.outputs[i], computed.outputs[i], expected);
    worst = std::max(worst, deviation.error_ppb.value_or(-1));
    if (!deviation.passed) problem = Cat({"output ", i, ": ", deviation.problem});
  }
  return Cat({worst, " ", static_cast<int64_t>(median), " ", memory_kib, " ", problem});
}

}  // namespace

void SelfTest(const std::string& folder, const Release& release, const std::string& state,
              std::optional<TestResult>* result) {
  const std::string answer =
      Apart([&] { return Work(folder, release, state); }, release.test.timeout_s, "the self-test");
  long long error = 0, latency = 0, memory = 0;
  int at = 0;
  if (std::sscanf(answer.c_str(), "%lld %lld %lld %n", &error, &latency, &memory, &at) != 3) {
    Throw(EDGE_REFUSED, "crash", {"the self-test said: ", answer});
  }
  *result = TestResult{error < 0 ? std::nullopt : std::optional<int64_t>(error), latency, memory, release.test.runs};
  if (const std::string problem = answer.substr(at); !problem.empty()) Throw(EDGE_REFUSED, "wrong", {problem});
  const auto& budget = release.budget;
  if (budget.latency_us && latency > *budget.latency_us) {
    Throw(EDGE_REFUSED, "slow", {"a run takes ", latency, " us, and at most ", *budget.latency_us, " are allowed"});
  }
  if (budget.memory_kib && memory > *budget.memory_kib) {
    Throw(EDGE_REFUSED, "memory", {"it took ", memory, " KiB of memory, and at most ", *budget.memory_kib, " are allowed"});
  }
}

void CheckRuntimeApart(const Release& release, const std::string& state) {
  Apart([&] { CheckRuntime(release, state); return std::string(); }, kDriverPatience_s, "asking for the devices");
}

std::string JsonTest(const std::optional<TestResult>& result) {
  if (!result) return "null";
  JsonMembers members;
  result->error_ppb ? members.Number("error_ppb", *result->error_ppb) : members.Value("error_ppb", "null");
  return members.Number("latency_us", result->latency_us).Number("memory_kib", result->memory_kib).Number("runs", result->runs).Object();
}

}  // namespace edge::field
