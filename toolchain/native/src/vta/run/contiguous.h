// Memory whose physical addresses follow each other, as an accelerator wants it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace edge::vta {

// Given back when it is deleted.
class Buffer {
 public:
  virtual ~Buffer() = default;
  uint8_t* data = nullptr;
  uint64_t physical = 0;
};

class Contiguous {
 public:
  virtual ~Contiguous() = default;
  // Begins a page. Refuses what there is no room for. Outlives what it gave.
  virtual std::shared_ptr<Buffer> Take(uint32_t bytes) = 0;
};

// Where Linux has it; a test has other folders.
struct MemoryPlaces {
  std::string classes = "/sys/class";
  std::string devices = "/dev";
  std::string library = "libcma.so";
};

// Why there is none; "" where there is. Keeps nothing open.
std::string ContiguousProblem(const MemoryPlaces& places);

// u-dma-buf's first device, else the vendor's library. `coherent`: the accelerator sees the CPU's caches; else the
// memory is not cached, and needs no flushing. Refuses where there is none.
std::unique_ptr<Contiguous> OpenContiguous(const MemoryPlaces& places, bool coherent);

}  // namespace edge::vta
