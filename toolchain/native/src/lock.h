// One measurement at a time on a board: a lock in its state folder, which those that wait get in the order of arrival.
#pragma once

#include <string>

#include "failure.h"
#include "file.h"

namespace edge {

class MeasureLock {
 public:
  // Waits at most `seconds`, and before none that came earlier; throws EDGE_BUSY with the holder. The folder must exist.
  // `whom`: as ForWhom returns it.
  MeasureLock(const std::string& state, const std::string& what, double seconds, const std::string& whom = "");
  ~MeasureLock();
  MeasureLock(const MeasureLock&) = delete;
  MeasureLock& operator=(const MeasureLock&) = delete;

 private:
  void Wait(const std::string& state, const std::string& words, double seconds);
  bool Take(const std::string& words);
  bool IsFree();

  Fd file_;
};

}  // namespace edge
