// One candidate: loaded, computed, compared, timed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "offline/plan.h"

namespace edge::offline {

struct Outcome {
  std::string status;   // ok, wrong result, timeout, runtime, upload
  std::string message;
  std::string device;   // as its driver names it; empty: the CPU
  std::vector<double> ms;
  Conditions conditions;
};

// In a process of its own, with the candidate's deadline. Never throws for what the candidate does.
Outcome Try(const Plan& plan, const Candidate& candidate, const std::string& device);

}  // namespace edge::offline
