// How long a program takes, by a clock: on an accelerator alone.
#pragma once

#include <vector>

#include "vta/run/driver.h"

namespace edge::vta {

// `repeat` times, each the mean of `number` runs, and of more until `least_ms` have passed.
struct Timing {
  int number = 1, repeat = 0, least_ms = 0;
};

// Milliseconds round the program's runs, without moving its values. A run that does not end is a Refusal.
std::vector<double> Clocked(Loaded* program, const Timing& how);

}  // namespace edge::vta
