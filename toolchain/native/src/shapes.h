// A network in several shapes: a function for each, and which of them the inputs call for.
#pragma once

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <string>
#include <vector>

struct edge_library;

namespace edge {

struct NetworkShape {
  std::string name;  // of its function
  tvm::ffi::Function function;
  std::vector<std::vector<int64_t>> inputs;
  int64_t elements = 0;  // of all inputs together
};

// The shapes that a library lists, the largest first; of a library with one shape, its function `main` alone,
// whose inputs are not known.
std::vector<NetworkShape> ReadShapes(const tvm::ffi::Module& machine, size_t inputs);

// Sets the library's shape, and what its function is called with, to what its inputs call for. Throws EDGE_USAGE
// where an input is missing or no shape takes them.
void ChooseShape(edge_library* library);

}  // namespace edge
