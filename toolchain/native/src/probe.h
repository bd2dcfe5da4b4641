// Asks drivers for their devices where a broken one does no harm: in a process of its own.
#pragma once

#include <string>

namespace edge {

// All kinds as JSON, as JsonDevices has them. Each driver has so many seconds to answer; one that has not,
// or that ended its process, is a problem of that kind. Only while this process has one thread.
std::string JsonDevicesApart(double seconds);

}  // namespace edge
