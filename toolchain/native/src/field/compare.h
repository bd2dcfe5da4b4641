// Compares an output with the expected one, as toolchain/models/deviation.py does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "field/statement.h"
#include "npy.h"

namespace edge::field {

struct Deviation {
  bool passed = false;
  std::optional<int64_t> error_ppb;  // as tolerance_ppb counts; none: it cannot be compared, or the reference is zero
  std::string problem;               // what is wrong, for people; empty if it passed
};

Deviation Compare(const OutputTest& test, const Array& output, const Array& expected);

}  // namespace edge::field
