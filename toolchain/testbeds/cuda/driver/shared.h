// The shared memory of a block: which thread wrote and read each place since the last barrier.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace emulated {

// Finds data races: two threads access a place, one of them writes it, and no barrier lies between.
class RaceDetector {
 public:
  struct Race {
    unsigned other;        // number of the thread that accessed the place before
    bool other_wrote;
  };

  // Forgets all accesses; shared memory has `bytes` bytes.
  void Begin(std::size_t bytes);
  // All threads have come to a barrier: what follows is ordered behind what was.
  void Barrier();

  // Notes an access to bytes [at, at + bytes) by a thread.
  // `warp_interval`: number of barriers of its warp that the thread has passed in this block.
  std::optional<Race> Note(std::size_t at, std::size_t bytes, unsigned thread, unsigned warp_interval, bool write,
                           bool atomic);

 private:
  struct Access {
    std::uint32_t interval = 0;  // between barriers of the block; 0: none
    std::uint16_t thread = 0;    // or kLanes + warp, or kMany
    std::uint16_t warp_interval = 0;
  };
  struct Cell {
    Access wrote, read;
    bool atomic = false;  // the write was one
  };

  void UseBytes();

  std::vector<Cell> cells_;
  std::size_t granule_ = 4;  // bytes of a cell: 4 until a smaller access is seen
  std::uint32_t interval_ = 0;
};

}  // namespace emulated
