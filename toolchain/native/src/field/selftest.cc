#include "field/selftest.h"

#include <algorithm>
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
#include "json.h"
#include "memory.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr double kDriverPatience_s = 60;
constexpr size_t kMostAnswer = 16384;  // bytes

// The kernel ends the test and not the installer where memory runs out.
void DieFirst() {
  try {
    Handle("/proc/self/oom_score_adj", O_WRONLY).Write("1000");
  } catch (const Failure&) {
  }
}

// JSON: {"result": …} with what `work` returned, or the failure that it threw.
std::string Answer(const std::function<std::string()>& work) {
  DieFirst();
  const auto failed = [](int code, std::string_view kind, std::string_view message) {
    return JsonMembers().Number("code", code).Text("kind", kind).Text("message", message).Object();
  };
  try {
    return JsonMembers().Value("result", work()).Object();
  } catch (const Failure& failure) {
    return failed(failure.code, failure.kind, failure.what());
  } catch (const std::bad_alloc&) {
    return failed(EDGE_REFUSED, "memory", kNoMemory);
  }
}

// What a process that may have spoiled its memory says of itself. Throws a Failure where that is no answer.
std::optional<Failure> FailureIn(const Node& answer) {
  if (answer.Has("result")) return std::nullopt;
  answer.Exactly("code kind message");
  return Failure(static_cast<int>(answer["code"].Int(1, 255)), answer["kind"].Text(40), answer["message"].Text(kMostAnswer, 0));
}

// JSON: {"result": …}. Throws what `work` threw, and "crash" or "timeout".
Json Apart(const std::function<std::string()>& work, double seconds, const std::string& what) {
  const Ended ended = RunApart([&] { return Answer(work); }, seconds, kMostAnswer);
  if (!ended.in_time) {
    Throw(EDGE_REFUSED, "timeout", {what, " had not ended after ", static_cast<int64_t>(seconds), " s"});
  }
  if (ended.signal != 0) Throw(EDGE_REFUSED, "crash", {what, " was ended by: ", strsignal(ended.signal)});
  std::optional<Failure> failure;
  try {
    Json answer = ReadJson(ended.answer, "crash");
    failure = FailureIn(Node(answer, "crash"));
    if (!failure) return answer;
  } catch (const Failure&) {
    Throw(EDGE_REFUSED, "crash", {what, " ended with exit code ", ended.code});
  }
  throw *failure;
}

// JSON: error, latency, memory and, if outputs are wrong, why.
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
  return JsonMembers()
      .Number("error_ppb", worst)
      .Number("latency_us", static_cast<int64_t>(median))
      .Number("memory_kib", memory_kib)
      .Text("problem", problem)
      .Object();
}

}  // namespace

void SelfTest(const std::string& folder, const Release& release, const std::string& state,
              std::optional<TestResult>* result) {
  const Json answer = Apart([&] { return Work(folder, release, state); }, release.test.timeout_s, "the self-test");
  const Node measured = Node(answer, "crash")["result"];
  const int64_t error = measured["error_ppb"].Int(-1, kLargest), latency = measured["latency_us"].Int(0, kLargest),
                memory = measured["memory_kib"].Int(0, kLargest);
  *result = TestResult{error < 0 ? std::nullopt : std::optional<int64_t>(error), latency, memory, release.test.runs};
  if (const std::string& problem = measured["problem"].Text(kMostAnswer, 0); !problem.empty()) {
    Throw(EDGE_REFUSED, "wrong", {problem});
  }
  const auto& budget = release.budget;
  if (budget.latency_us && latency > *budget.latency_us) {
    Throw(EDGE_REFUSED, "slow", {"a run takes ", latency, " us, and at most ", *budget.latency_us, " are allowed"});
  }
  if (budget.memory_kib && memory > *budget.memory_kib) {
    Throw(EDGE_REFUSED, "memory", {"it took ", memory, " KiB of memory, and at most ", *budget.memory_kib, " are allowed"});
  }
}

void CheckRuntimeApart(const Release& release, const std::string& state) {
  Apart([&] { CheckRuntime(release, state); return std::string("null"); }, kDriverPatience_s, "asking for the devices");
}

std::string JsonTest(const std::optional<TestResult>& result) {
  if (!result) return "null";
  JsonMembers members;
  result->error_ppb ? members.Number("error_ppb", *result->error_ppb) : members.Value("error_ppb", "null");
  return members.Number("latency_us", result->latency_us).Number("memory_kib", result->memory_kib).Number("runs", result->runs).Object();
}

}  // namespace edge::field
