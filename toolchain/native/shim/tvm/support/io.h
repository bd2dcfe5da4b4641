// Byte streams, as the runtime sources of the TVM wheel expect them.
// The wheel ships those sources but not this header; the bytes written are the same.
#pragma once

#include <cstddef>

namespace tvm::support {

template <typename T>
struct Serializer;

class Stream {
 public:
  virtual ~Stream() = default;
  // Bytes really read or written.
  virtual size_t Read(void* ptr, size_t size) = 0;
  virtual size_t Write(const void* ptr, size_t size) = 0;

  template <typename T>
  void Write(const T& value) {
    Serializer<T>::Write(this, value);
  }
  template <typename T>
  bool Read(T* value) {
    return Serializer<T>::Read(this, value);
  }
  template <typename T>
  void WriteArray(const T* values, size_t count) {
    Serializer<T>::WriteMany(this, values, count);
  }
  template <typename T>
  bool ReadArray(T* values, size_t count) {
    return Serializer<T>::ReadMany(this, values, count);
  }
};

}  // namespace tvm::support
