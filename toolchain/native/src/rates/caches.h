// The data caches of a CPU, as Linux tells of them.
#pragma once

#include <cstddef>
#include <string>

namespace edge::rates {

// Bytes; 0: there is none, or the system does not say.
struct Caches {
  size_t l1 = 0, l2 = 0, l3 = 0;
};

Caches CachesOf(int cpu, const std::string& folder = "/sys/devices/system/cpu");

}  // namespace edge::rates
