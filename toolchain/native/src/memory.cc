#include "memory.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace edge {

// Not getrusage: its maximum survives exec, so it would be that of whoever started this program.
double PeakRssMib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) / 1024;
  }
  return 0;
}

}  // namespace edge
