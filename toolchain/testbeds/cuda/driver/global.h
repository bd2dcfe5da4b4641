// Device memory during a launch: which block wrote each place, and which blocks know of it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace emulated {

// Finds data races between blocks: one writes a place, another writes or reads it, and the second has not
// arrived at a counter that the first arrived at after its write.
//
// It sees words of four bytes, and reads behind writes: the order of blocks alternates from launch to launch, so a
// read before a write is one behind it in the next launch.
class BlockRaceDetector {
 public:
  // Forgets all writes: a launch begins behind the end of the one before.
  void Begin();
  void BeginBlock(unsigned block);
  // The block that runs knows from now on what those wrote that arrived here before, and those that come will know
  // what it wrote.
  void Arrive(std::uintptr_t counter);
  // Notes an access of the block that runs; returns another block that it races with.
  std::optional<unsigned> Note(std::uintptr_t at, std::size_t bytes, bool write);

 private:
  using Known = std::unordered_map<unsigned, unsigned>;  // how many arrivals of a block are known
  struct Cell {
    unsigned block = 0;     // that wrote it, counted from 1; 0: none
    unsigned arrivals = 0;  // of that block before it wrote
  };
  static constexpr std::size_t kPage = 4096, kWord = 4;
  struct Page {
    Cell cells[kPage / kWord];
  };

  Page* PageOf(std::uintptr_t number, bool make);

  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t last_number_ = 0;
  Page* last_ = nullptr;
  unsigned block_ = 0, arrivals_ = 0;
  Known known_;
  std::unordered_map<std::uintptr_t, Known> counters_;
};

}  // namespace emulated
