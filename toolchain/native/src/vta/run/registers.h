// The registers of an accelerator, by their addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace edge::vta {

class Registers {
 public:
  virtual ~Registers() = default;
  virtual void Write(uint32_t address, uint32_t value) = 0;
  virtual uint32_t Read(uint32_t address) = 0;
  // Keeps other processes from the accelerator, until Release. Refuses after `seconds`.
  virtual void Take(double seconds) = 0;
  virtual void Release() = 0;
};

// Those in `bytes` from `base` on, in a file of the machine's memory (/dev/mem).
std::unique_ptr<Registers> MapRegisters(const std::string& file, uint32_t base, uint32_t bytes);

// Locks a file for this process alone; false if another has it still after `seconds`.
bool LockFile(int fd, double seconds);

}  // namespace edge::vta
