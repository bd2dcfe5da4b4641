// The GPUs of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/driver.h"

namespace edge::cuda {

struct CuDevice {
  const Driver* driver;
  CUdevice id;
  std::string name;
  int major, minor;  // compute capability; 0.0: a driver that computes on the CPU
  uint64_t global_bytes;
  uint64_t threads;     // most of a block
  uint64_t block[3];    // and along each axis
  uint64_t grid[3];     // most blocks along each axis
  uint64_t shared;      // bytes of a block
  uint64_t shared_most;  // and of one whose kernel was set to ask for more

  // A code's number that is made for just this GPU: 90 for 9.0.
  int arch() const { return 10 * major + minor; }
};

// In the order of their numbers. The driver is opened at the first call, and no context is made. Without any the
// list is empty, and `problem` says what was looked for; the next call looks again.
const std::vector<CuDevice>& Devices(std::string* problem);

// What is known of a device, as a JSON object.
std::string Details(const CuDevice& device);

// 0 where the driver doesn't know.
uint64_t DeviceNumber(const CuDevice& device, CUdevice_attribute attribute);

// As "0000:01:00.0"; empty where the driver doesn't know.
std::string PciId(const CuDevice& device);

// "NVIDIA H200 (sm_90), driver for CUDA 13.0", for messages.
std::string Describe(const CuDevice& device);

// "sm_90"; "emulated" for 0.
std::string ArchName(int arch);

}  // namespace edge::cuda
