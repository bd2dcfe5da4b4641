// How edge.check.* (check.cc) says that a network was given values which it cannot compute with.
#pragma once

namespace edge {

// The kind of the error. What it says names the input, the value and the place.
constexpr char kValueError[] = "EdgeValue";

}  // namespace edge
