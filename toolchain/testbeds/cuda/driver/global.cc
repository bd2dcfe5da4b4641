#include "global.h"

#include <algorithm>

namespace emulated {

void BlockRaceDetector::Begin() {
  pages_.clear();
  counters_.clear();
  last_ = nullptr;
}

void BlockRaceDetector::BeginBlock(unsigned block) {
  block_ = block + 1;
  arrivals_ = 0;
  known_.clear();
}

void BlockRaceDetector::Arrive(std::uintptr_t counter) {
  ++arrivals_;
  Known& there = counters_[counter];
  for (const auto& [block, arrivals] : there) known_[block] = std::max(known_[block], arrivals);
  there = known_;
  there[block_] = arrivals_;
}

BlockRaceDetector::Page* BlockRaceDetector::PageOf(std::uintptr_t number, bool make) {
  if (last_ != nullptr && last_number_ == number) return last_;
  auto found = pages_.find(number);
  if (found == pages_.end()) {
    if (!make) return nullptr;
    found = pages_.emplace(number, std::make_unique<Page>()).first;
  }
  last_number_ = number;
  return last_ = found->second.get();
}

std::optional<unsigned> BlockRaceDetector::Note(std::uintptr_t at, std::size_t bytes, bool write) {
  if (at % kWord != 0 || bytes % kWord != 0) return std::nullopt;
  for (const std::uintptr_t end = at + bytes; at < end; at += kWord) {
    Page* page = PageOf(at / kPage, write);
    if (page == nullptr) continue;
    Cell& cell = page->cells[at % kPage / kWord];
    if (cell.block != 0 && cell.block != block_) {
      const auto known = known_.find(cell.block);
      if (known == known_.end() || known->second <= cell.arrivals) return cell.block - 1;
    }
    if (write) cell = {block_, arrivals_};
  }
  return std::nullopt;
}

}  // namespace emulated
