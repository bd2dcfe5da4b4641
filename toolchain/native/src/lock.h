// One measurement at a time on a board: a lock in its state folder.
#pragma once

#include <string>

namespace edge {

class MeasureLock {
 public:
  // Waits at most `seconds`; throws EDGE_BUSY with the holder. The folder must exist.
  MeasureLock(const std::string& state, const std::string& what, double seconds);
  ~MeasureLock();
  MeasureLock(const MeasureLock&) = delete;
  MeasureLock& operator=(const MeasureLock&) = delete;

 private:
  int fd_;
};

}  // namespace edge
