// The copies from global to shared memory that a thread has begun and not waited for (cp.async of PTX).
#pragma once
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace emulated {

struct AsyncCopy {
  char* to;
  const char* from;
  std::size_t bytes, zeros;  // written: `bytes` from there, `zeros` behind them
};

class AsyncCopies {
 public:
  void Add(const AsyncCopy& copy) { open_.push_back(copy); }
  void Commit() { groups_.push_back(std::exchange(open_, {})); }
  // Removes and returns the copies of all committed groups but the `left` newest.
  std::vector<AsyncCopy> Take(std::size_t left) {
    std::vector<AsyncCopy> taken;
    for (; groups_.size() > left; groups_.pop_front()) {
      taken.insert(taken.end(), groups_.front().begin(), groups_.front().end());
    }
    return taken;
  }
  void Clear() {
    open_.clear();
    groups_.clear();
  }

 private:
  std::vector<AsyncCopy> open_;
  std::deque<std::vector<AsyncCopy>> groups_;
};

}  // namespace emulated
