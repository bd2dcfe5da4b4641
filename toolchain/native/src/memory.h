// The memory of this process.
#pragma once

namespace edge {

// The most that was resident at once.
double PeakRssMib();

}  // namespace edge
