// Streams over memory.
#pragma once

#include <tvm/support/io.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tvm::support {

class BytesInStream : public Stream {
 public:
  // Anything with data() and size(); it must outlive the stream.
  template <typename Bytes>
  explicit BytesInStream(const Bytes& bytes) : data_(bytes.data()), left_(bytes.size()) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void* ptr, size_t size) final {
    size = std::min(size, left_);
    if (size != 0) std::memcpy(ptr, data_, size);
    data_ += size;
    left_ -= size;
    return size;
  }
  size_t Write(const void*, size_t) final { return 0; }

 private:
  const char* data_;
  size_t left_;
};

class BytesOutStream : public Stream {
 public:
  explicit BytesOutStream(std::string* out) : out_(out) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void*, size_t) final { return 0; }
  size_t Write(const void* ptr, size_t size) final {
    out_->append(static_cast<const char*>(ptr), size);
    return size;
  }

 private:
  std::string* out_;
};

}  // namespace tvm::support
