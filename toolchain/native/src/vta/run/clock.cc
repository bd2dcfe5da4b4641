#include "vta/run/clock.h"

#include <chrono>

namespace edge::vta {

std::vector<double> Clocked(Loaded* program, const Timing& how) {
  using std::chrono::steady_clock;
  std::vector<double> means;
  for (int i = 0; i < how.repeat; ++i) {
    double ms = 0;
    int runs = 0;
    while (runs < how.number || ms < how.least_ms) {
      const auto begin = steady_clock::now();
      program->Run();
      ms += std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count();
      ++runs;
    }
    means.push_back(ms / runs);
  }
  return means;
}

}  // namespace edge::vta
