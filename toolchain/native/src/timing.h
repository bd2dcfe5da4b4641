// How long an opened network takes: its runs, its copies, its operators.
#pragma once

#include <map>
#include <string>

#include "library.h"

namespace edge {

// Mean milliseconds of a run, of at least `number` runs and `min_ms` in all; how many there were.
void Measure(edge_library* library, int number, int min_ms, double* ms, int* runs);

// Milliseconds of the fastest of `repeat` copies of all inputs to the device, and of all outputs from it.
void MeasureCopies(const edge_library& library, int repeat, double* to_ms, double* from_ms);

struct OperatorTime {
  int calls = 0;
  double ms = 0;
};

// All calls of each operator in `runs` runs, by its name.
std::map<std::string, OperatorTime> Profile(edge_library* library, int runs);

}  // namespace edge
