// Memory for one RPC message, given back all at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tvm::support {

class Arena {
 public:
  // Room for `count` plain values.
  template <typename T>
  T* allocate_(int64_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    constexpr size_t kAlign = alignof(std::max_align_t);
    // The count may come from the network, and size_t may have 32 bits.
    if (count < 0 || static_cast<uint64_t>(count) > (PTRDIFF_MAX - kAlign) / sizeof(T)) {
      throw std::length_error("a message with an array of impossible size");
    }
    last_.clear();
    size_t bytes = (sizeof(T) * static_cast<size_t>(count) + kAlign - 1) / kAlign * kAlign;
    if (blocks_.empty() || used_ + bytes > capacity_) {
      capacity_ = std::max<size_t>(bytes, 16 << 10);
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(capacity_));
      used_ = 0;
    }
    void* at = blocks_.back().get() + used_;
    used_ += bytes;
    return static_cast<T*>(at);
  }

  // TVM gives a message back and reads it once more (HandleReturn): it stays until the next one's
  // first value.
  void RecycleAll() {
    if (!blocks_.empty()) last_ = std::move(blocks_);
    blocks_.clear();
    used_ = capacity_ = 0;
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_, last_;
  size_t used_ = 0;
  size_t capacity_ = 0;
};

}  // namespace tvm::support
