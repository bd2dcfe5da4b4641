// Whether a release computes here what it should, as fast as it should.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "field/statement.h"
#include "npy.h"

namespace edge::field {

struct TestResult {
  std::optional<int64_t> error_ppb;  // the largest of all outputs
  int64_t latency_us = 0, memory_kib = 0;
  int runs = 0;
};

// "null" where there is none.
std::string JsonTest(const std::optional<TestResult>& result);

// Runs the sample in a process of its own: the library may crash, hang or eat memory. Sets `result` as far as it came.
// Throws EDGE_REFUSED: "wrong" outputs, "slow", "memory", "crash", "timeout"; and what Compute throws. `state`: the folder
// of the measurements' lock.
void SelfTest(const std::string& folder, const Release& release, const std::string& state,
              std::optional<TestResult>* result);

// What one process computed.
struct Computed {
  std::vector<Array> outputs;    // of the last run
  std::vector<double> runs_us;   // each run's time
};

// The two functions that need TVM; tests of the installer have others. Both are called in a process of their own.

// Loads a release's library and runs its sample as often as its test says, after one run that does not count.
Computed Compute(const std::string& folder, const Release& release, const std::string& state);
// Throws EDGE_REQUIRES for what the release requires and is not here.
void CheckRuntime(const Release& release, const std::string& state);

// CheckRuntime in a process of its own: drivers may crash or hang.
void CheckRuntimeApart(const Release& release, const std::string& state);

}  // namespace edge::field
