// A frame of TVM's RPC protocol, read as tvm/src/runtime/rpc/minrpc/rpc_reference.h reads it; but
// whatever is announced must really be there.
#pragma once

#include <minrpc/rpc_reference.h>

#include <compare>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"

namespace edge {

using tvm::runtime::RPCCode;

// tvm/src/runtime/rpc/rpc_session.h: kRuntimeRPCObjectRef, an object by its handle.
constexpr int32_t kRemoteObject = 115;

Failure Refused(const std::string& what);
// TVM's name of a code.
std::string Name(RPCCode code);

struct Device {
  int32_t type, id;
  auto operator<=>(const Device&) const = default;
};

struct TensorArgument {
  uint64_t data = 0;
  Device device{};
  uint64_t offset = 0;
  uint64_t bytes = 0;  // of all its elements
};

struct Value {
  int32_t type = 0;
  uint64_t bits = 0;  // a number or a handle
  Device device{};
  TensorArgument tensor;
};

class FrameReader {
 public:
  FrameReader(const void* data, size_t size) : at_(static_cast<const char*>(data)), left_(size) {}

  template <typename T>
  T Next() {
    T value;
    const std::string_view bytes = Bytes(sizeof(T));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view Bytes(uint64_t size);
  // The type of the value that comes next.
  int32_t Peek() const;
  edge::Value Value();
  // A count, and as many.
  std::vector<edge::Value> Values();
  TensorArgument Tensor();
  // Throws unless everything was read.
  void End() const;

 private:
  const char* at_;
  size_t left_;
};

}  // namespace edge
