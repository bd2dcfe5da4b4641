// Compares what a candidate computed with what it should have: as toolchain/tuning/boards/cases.py does.
#pragma once

#include <string>

#include "npy.h"
#include "offline/plan.h"

namespace edge::offline {

// An output before it is computed: NaN, or 0 for integers, so that a value that is left unwritten is noticed.
Array Unwritten(const Output& output);

// What is wrong with an output; empty if nothing is. `bytes` has its values, in its type and shape.
std::string Wrong(const Output& output, const std::string& bytes, const Array& expected);

}  // namespace edge::offline
