#include "shared.h"

namespace emulated {
namespace {

constexpr unsigned kLanes = 0x4000;  // several lanes of one warp read it
constexpr unsigned kMany = 0xFFFF;   // threads of several warps read it
constexpr unsigned kWarpThreads = 32;

unsigned WarpOf(unsigned code) { return code >= kLanes ? code - kLanes : code / kWarpThreads; }

}  // namespace

void RaceDetector::Begin(std::size_t bytes) {
  const std::size_t cells = (bytes + granule_ - 1) / granule_;
  if (cells_.size() < cells) cells_.resize(cells);
  Barrier();
}

void RaceDetector::Barrier() {
  if (++interval_ == 0) {  // after 2^32 barriers
    cells_.assign(cells_.size(), Cell());
    interval_ = 1;
  }
}

void RaceDetector::UseBytes() {
  std::vector<Cell> smaller(cells_.size() * granule_);
  for (std::size_t i = 0; i < smaller.size(); ++i) smaller[i] = cells_[i / granule_];
  cells_ = std::move(smaller);
  granule_ = 1;
}

std::optional<RaceDetector::Race> RaceDetector::Note(std::size_t at, std::size_t bytes, unsigned thread,
                                                     unsigned warp_interval, bool write, bool atomic) {
  if (granule_ > 1 && (at % granule_ != 0 || bytes % granule_ != 0)) UseBytes();
  const Access mine{interval_, static_cast<std::uint16_t>(thread), static_cast<std::uint16_t>(warp_interval)};
  // Whether what another did lies behind a barrier of this thread's warp.
  auto ordered = [&](const Access& other) {
    return other.interval != interval_ || other.thread == thread ||
           (other.thread != kMany && WarpOf(other.thread) == thread / kWarpThreads &&
            other.warp_interval != mine.warp_interval);
  };
  for (std::size_t i = at / granule_; i < (at + bytes) / granule_; ++i) {
    Cell& cell = cells_[i];
    if (!ordered(cell.wrote) && !(atomic && cell.atomic)) return Race{cell.wrote.thread, true};
    if (!write) {
      Access& read = cell.read;
      const bool first = read.interval != interval_ || read.thread == thread;
      if (first) {
        read = mine;
      } else if (read.thread != kMany && WarpOf(read.thread) == thread / kWarpThreads) {
        read = {interval_, static_cast<std::uint16_t>(kLanes + thread / kWarpThreads), mine.warp_interval};
      } else {
        read.thread = kMany;
      }
      continue;
    }
    if (!ordered(cell.read)) {
      const unsigned code = cell.read.thread;
      return Race{code == kMany ? code : code >= kLanes ? (code - kLanes) * kWarpThreads : code, false};
    }
    cell.wrote = mine;
    cell.atomic = atomic;
  }
  return std::nullopt;
}

}  // namespace emulated
