// What networks run on: the CPU, and kinds of devices that register themselves. A new kind is a file of
// its own and a line in CMakeLists.txt (docs/howto/add-a-device.md).
#pragma once

#include <dlpack/dlpack.h>

#include <string>
#include <vector>

namespace edge {

// The devices of one kind that are here.
struct Presence {
  std::vector<std::string> names;  // in the order of their numbers, as their driver calls them
  std::string problem;             // where there are none: why
};

struct DeviceKind {
  const char* name;   // a word, as edge_options.device, `edge-rt info` and bundles have it
  DLDeviceType type;  // where its tensors lie; kDLCPU: in the host's memory, whatever computes
  // Looks anew each time, and keeps nothing of a driver open (no context, no queue). The server that
  // forks sessions never calls it, for some drivers start threads when they are first asked.
  Presence (*probe)();
};

// At file scope, in the kind's own file.
class RegisterDevice {
 public:
  explicit RegisterDevice(const DeviceKind& kind);
};

// The device of a name: "" or "cpu"; a kind; or a kind and a number, as in "opencl:1". Throws EDGE_USAGE
// for another form, and EDGE_REQUIRES for one that is not here, with those that are.
DLDevice FindDevice(const std::string& name);

// All kinds, as JSON, the CPU first: their names and, where there are none, the problem.
std::string JsonDevices();

}  // namespace edge
