// One candidate: loaded, computed, compared, timed. `edge-rt measure` and RPC sessions measure by it.
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
  Timed timed;
  Conditions conditions;                   // just after it was timed
  std::string governor, temperature;       // just before it began, as JSON
};

// In a process of its own, with the candidate's deadline. Never throws for what the candidate does. `client`: the socket of
// whoever waits for the outcome; when that has gone, the process is ended, and this throws. -1: nobody does.
Outcome Try(const Plan& plan, const Candidate& candidate, const std::string& device, int client = -1);

// What is told of it: a JSON object in one line, without its end.
std::string Line(const Candidate& candidate, const Outcome& outcome);

}  // namespace edge::offline
