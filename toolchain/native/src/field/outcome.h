// How an installation ended: the last line that the board says.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "edge_rt.h"
#include "field/selftest.h"
#include "field/state.h"

namespace edge::field {

struct Outcome {
  std::string end;  // a word of docs/release-format.md
  std::optional<std::string> app, version, digest, previous, attempt;
  int64_t received = 0;  // bytes
  std::optional<TestResult> test;
  std::optional<Cause> cause, rollback;
  int code = EDGE_OK;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  // The members of the line, without braces.
  std::string Members() const;
};

}  // namespace edge::field
