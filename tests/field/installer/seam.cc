// What the tests do to the installer, by environment variables; edge-rt has none of this (field/seam.h).
#include "field/seam.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace edge::field {

static bool Says(const char* variable, const char* value) {
  const char* said = std::getenv(variable);
  return said != nullptr && std::strcmp(said, value) == 0;
}

bool LeavesOut(const char* sync) { return Says("FIELD_LEAVE_OUT", sync); }

// The test sees the process stopped in this step, does what it wants, and lets it go on.
void Reach(const char* step) {
  if (Says("FIELD_STOP_IN", step)) raise(SIGSTOP);
}

int64_t Now() {
  const char* said = std::getenv("FIELD_NOW");
  return said != nullptr ? std::atoll(said) : std::time(nullptr);
}

}  // namespace edge::field
