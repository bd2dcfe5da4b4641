// A growing ring of bytes between a socket and the RPC state machine.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace tvm::support {

class RingBuffer {
 public:
  size_t bytes_available() const { return size_; }

  void Reserve(size_t capacity) {
    if (capacity <= ring_.size()) return;
    std::vector<char> larger(std::max(capacity, 2 * ring_.size()));
    size_t size = size_;
    Read(larger.data(), size);
    ring_.swap(larger);
    head_ = 0;
    size_ = size;
  }

  void Read(void* data, size_t size) {
    if (size > size_) throw std::out_of_range("more bytes asked for than there are");
    if (size == 0) return;
    size_t first = std::min(size, ring_.size() - head_);
    std::memcpy(data, ring_.data() + head_, first);
    std::memcpy(static_cast<char*>(data) + first, ring_.data(), size - first);
    Drop(size);
  }

  void Write(const void* data, size_t size) {
    if (size == 0) return;
    Reserve(size_ + size);
    size_t tail = Tail();
    size_t first = std::min(size, ring_.size() - tail);
    std::memcpy(ring_.data() + tail, data, first);
    std::memcpy(ring_.data(), static_cast<const char*>(data) + first, size - first);
    size_ += size;
  }

  // send(pointer, size) says how many bytes it took.
  template <typename Send>
  size_t ReadWithCallback(Send send, size_t most) {
    size_t size = std::min({most, size_, ring_.size() - head_});
    size_t sent = size == 0 ? 0 : send(ring_.data() + head_, size);
    Drop(sent);
    return sent;
  }

  // receive(pointer, size) says how many bytes it gave.
  template <typename Receive>
  size_t WriteWithCallback(Receive receive, size_t most) {
    Reserve(size_ + most);
    size_t tail = Tail();
    size_t got = receive(ring_.data() + tail, std::min(most, ring_.size() - tail));
    size_ += got;
    return got;
  }

 private:
  size_t Tail() const { return (head_ + size_) % ring_.size(); }
  void Drop(size_t size) {
    size_ -= size;
    head_ = size_ == 0 ? 0 : (head_ + size) % ring_.size();
  }

  std::vector<char> ring_ = std::vector<char>(4096);
  size_t head_ = 0;
  size_t size_ = 0;
};

}  // namespace tvm::support
