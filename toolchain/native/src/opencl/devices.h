// The OpenCL devices of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opencl/driver.h"

namespace edge::opencl {

struct ClDevice {
  const Driver* driver;
  cl_device id;
  std::string name;
  std::string driver_version;
  std::string version;  // of OpenCL that the device has: "OpenCL 1.2 …"
  std::string platform;
  size_t work_group;  // most work items of a group
  size_t work_items[3];  // and most along each axis
  uint64_t local_bytes, global_bytes, most_allocated;  // the last: at once
};

// In the order of their numbers: GPUs first, then what else computes. A driver is opened at the first call,
// and no context is made. Without any the list is empty, and `problem` says what was looked for; the
// next call looks again.
const std::vector<ClDevice>& Devices(std::string* problem);

// What is known of a device, as a JSON object.
std::string Details(const ClDevice& device);

// A number of clGetDeviceInfo; 0 where the driver doesn't know.
uint64_t DeviceNumber(const ClDevice& device, DeviceInfo what, size_t bytes);

}  // namespace edge::opencl
