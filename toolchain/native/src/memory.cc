#include "memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "text.h"

namespace edge {

// Not getrusage: its maximum survives exec, so it would be that of whoever started this program.
double PeakRssMib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    const auto kib = LeadingNumber(std::string_view(line).substr(std::min(line.find_first_of("0123456789"), line.size())), UINT64_MAX);
    return static_cast<double>(kib.value_or(0)) / 1024;
  }
  return 0;
}

}  // namespace edge
