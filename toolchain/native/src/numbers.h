// Types of numbers by numpy's names, and what lies in memory as numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace edge {

struct NumberType {
  const char* name;
  size_t bytes;
  bool inexact;  // of floating point
  double (*value)(const char* at);
};

// Null for a type that edge-rt does not know.
const NumberType* NumberTypeOf(const std::string& name);

// Product of the extents; nothing if it is beyond size_t, or an extent is negative.
bool CountOf(const std::vector<int64_t>& shape, size_t* count);

}  // namespace edge
