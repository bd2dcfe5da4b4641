// edge-rt's verb vta alone, for a compiler with sanitizers: seconds instead of minutes.
#include <cstdio>

#include "failure.h"
#include "vta/command.h"

int main() {
  try {
    return edge::VtaCommand(edge::Options(0, nullptr, {}));
  } catch (const edge::Failure& failure) {
    std::fprintf(stderr, "edge-rt: %s\n", failure.what());
    return failure.code;
  }
}
