// A growing ring of bytes between a socket and the RPC state machine.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace tvm::support {

class RingBuffer {
 public:
  // The other side announces how long its message will be. A library or a tensor is one message; boards
  // have 0.5 to 8 GiB of memory, in which it must fit twice: here, and where it is put.
  static constexpr size_t kMostBytes = size_t{1} << 30;

  size_t bytes_available() const { return size_; }

  // The new memory is not written to: what was announced and never comes costs addresses alone.
  void Reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    if (capacity > kMostBytes) {
      throw std::length_error("a message of " + std::to_string(capacity) + " bytes; the most is " +
                              std::to_string(kMostBytes));
    }
    const size_t larger = std::min(std::max(capacity, 2 * capacity_), kMostBytes);
    auto ring = std::make_unique_for_overwrite<char[]>(larger);
    const size_t size = size_;
    Read(ring.get(), size);
    ring_ = std::move(ring);
    capacity_ = larger;
    head_ = 0;
    size_ = size;
  }

  void Read(void* data, size_t size) {
    if (size > size_) throw std::out_of_range("more bytes asked for than there are");
    if (size == 0) return;
    size_t first = std::min(size, capacity_ - head_);
    std::memcpy(data, ring_.get() + head_, first);
    std::memcpy(static_cast<char*>(data) + first, ring_.get(), size - first);
    Drop(size);
  }

  void Write(const void* data, size_t size) {
    if (size == 0) return;
    Reserve(size_ + size);
    size_t tail = Tail();
    size_t first = std::min(size, capacity_ - tail);
    std::memcpy(ring_.get() + tail, data, first);
    std::memcpy(ring_.get(), static_cast<const char*>(data) + first, size - first);
    size_ += size;
  }

  // send(pointer, size) says how many bytes it took.
  template <typename Send>
  size_t ReadWithCallback(Send send, size_t most) {
    size_t size = std::min({most, size_, capacity_ - head_});
    size_t sent = size == 0 ? 0 : send(ring_.get() + head_, size);
    Drop(sent);
    return sent;
  }

  // receive(pointer, size) says how many bytes it gave.
  template <typename Receive>
  size_t WriteWithCallback(Receive receive, size_t most) {
    Reserve(size_ + most);
    size_t tail = Tail();
    size_t got = receive(ring_.get() + tail, std::min(most, capacity_ - tail));
    size_ += got;
    return got;
  }

 private:
  size_t Tail() const { return (head_ + size_) % capacity_; }
  void Drop(size_t size) {
    size_ -= size;
    head_ = size_ == 0 ? 0 : (head_ + size) % capacity_;
  }

  size_t capacity_ = 4096;
  std::unique_ptr<char[]> ring_ = std::make_unique_for_overwrite<char[]>(capacity_);
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace tvm::support
