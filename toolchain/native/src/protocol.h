// Numbers of TVM's greeting (tvm/rpc/base.py).
#pragma once

#include <cstdint>

namespace edge {

// RPC_MAGIC; one more means "key in use", two more "no such key".
constexpr int32_t kRpcMagic = 0xFF271;
constexpr int32_t kMismatch = kRpcMagic + 2;

}  // namespace edge
