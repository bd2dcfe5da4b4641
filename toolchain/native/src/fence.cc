#include "fence.h"

#include <tvm/ffi/c_api.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "edge_rt.h"
#include "failure.h"
#include "frame.h"
#include "text.h"

namespace edge {
namespace {

// Device types of DLPack, all below TVM's table of them; what edge-rt has no code for is not served,
// and TVM says so.
constexpr int32_t kMostDeviceType = 17;
constexpr uint64_t kMostAlignment = 1 << 16;

bool IsText(int32_t type) { return type == kTVMFFIRawStr || type == kTVMFFIStr; }

void Want(bool holds, const std::string& what) {
  if (!holds) throw Refused(what);
}

void CheckDevice(const Device& device) {
  Want(device.type >= 1 && device.type <= kMostDeviceType && device.id >= 0,
       "a device " + std::to_string(device.type) + ":" + std::to_string(device.id));
}

// The arguments that TVM's handler of a code takes: it counts on their number.
// d device, i integer, t data type, s text, p pointer, T tensor, o text or nothing, q pointer or nothing
struct Form {
  RPCCode code;
  const char* arguments;
};
constexpr Form kForms[] = {{RPCCode::kGetGlobalFunc, "s"},
                           {RPCCode::kFreeHandle, "p"},
                           {RPCCode::kDevSetDevice, "d"},
                           {RPCCode::kDevGetAttr, "di"},
                           {RPCCode::kDevAllocData, "diit"},
                           {RPCCode::kDevFreeData, "dp"},
                           {RPCCode::kDevStreamSync, "dq"},
                           {RPCCode::kCopyAmongRemote, "TTq"},
                           {RPCCode::kDevAllocDataWithScope, "To"},
                           {RPCCode::kDevCreateStream, "d"},
                           {RPCCode::kDevFreeStream, "dq"},
                           {RPCCode::kDevSetStream, "dq"},
                           {RPCCode::kDevGetCurrentStream, "d"}};

bool Fits(char form, int32_t type) {
  switch (form) {
    case 'd': return type == kTVMFFIDevice;
    case 'i': return type == kTVMFFIInt;
    case 't': return type == kTVMFFIDataType;
    case 's': return IsText(type);
    case 'p': return type == kTVMFFIOpaquePtr;
    case 'T': return type == kTVMFFIDLTensorPtr;
    case 'o': return IsText(type) || type == kTVMFFINone;
    default: return type == kTVMFFIOpaquePtr || type == kTVMFFINone;
  }
}

void CheckForm(RPCCode code, const std::vector<Value>& values) {
  for (const Form& form : kForms) {
    if (form.code != code) continue;
    bool fits = values.size() == std::strlen(form.arguments);
    for (size_t i = 0; fits && i < values.size(); ++i) {
      fits = Fits(form.arguments[i], values[i].type);
    }
    return Want(fits, Name(code) + " with other arguments than it takes");
  }
  throw Refused("the code " + std::to_string(static_cast<int>(code)) + ", which no client sends");
}

void CheckMemory(const Handed& handed, const TensorArgument& tensor, uint64_t bytes) {
  Want(handed.IsMemory(tensor.device, tensor.data, tensor.offset, bytes),
       "a tensor of " + std::to_string(bytes) + " bytes that lies outside of what this session has "
       "handed out");
}

// Whatever points somewhere must have come from here.
void CheckHandles(const Handed& handed, const std::vector<Value>& values) {
  for (const Value& value : values) {
    switch (value.type) {
      case kTVMFFIDevice: CheckDevice(value.device); break;
      case kTVMFFIDLTensorPtr:
        CheckDevice(value.tensor.device);
        CheckMemory(handed, value.tensor, value.tensor.bytes);
        break;
      case kTVMFFIOpaquePtr:
        Want(value.bits == 0 || handed.IsPointer(value.bits), "a pointer that was never handed out");
        break;
      case kTVMFFIFunction:
      case kTVMFFIModule:
        Want(handed.IsObject(value.bits, value.type), "an object that was never handed out");
        break;
      case kRemoteObject:
        Want(handed.IsObject(value.bits), "an object that was never handed out");
        break;
      default: break;
    }
  }
}

void CheckInit(FrameReader* in) {
  const std::string_view version = in->Bytes(in->Next<uint64_t>());
  Want(version == tvm::runtime::kRPCProtocolVer,
       "version " + Quote(version.substr(0, 40)) + " of the protocol: this is " +
           Quote(tvm::runtime::kRPCProtocolVer));
  Want(in->Values().empty(), "kInitServer with a session of the client's own making");
}

void CheckCopy(const Handed& handed, FrameReader* in, bool data_follow) {
  const TensorArgument tensor = in->Tensor();
  CheckDevice(tensor.device);
  const auto bytes = in->Next<uint64_t>();
  uint64_t end;
  Want(!__builtin_add_overflow(tensor.offset, bytes, &end) && end <= tensor.bytes,
       "a copy of " + std::to_string(bytes) + " bytes at " + std::to_string(tensor.offset) +
           " of a tensor that has " + std::to_string(tensor.bytes));
  CheckMemory(handed, tensor, bytes);
  if (data_follow) {
    in->Bytes(bytes);
  } else {
    Want(bytes <= kMostFrame - kAnswerHead, "a copy of " + std::to_string(bytes) + " bytes at once; the most is " +
                                                std::to_string(kMostFrame - kAnswerHead));
  }
}

}  // namespace

void Fence::Length(uint64_t bytes) const {
  Want(bytes >= sizeof(int32_t) && bytes <= kMostFrame,
       "a message of " + std::to_string(bytes) + " bytes; the most is " + std::to_string(kMostFrame));
}

void Fence::Frame(const void* data, size_t size) {
  FrameReader in(data, size);
  const auto code = static_cast<RPCCode>(in.Next<int32_t>());
  code_ = static_cast<int32_t>(code);
  Want((code == RPCCode::kInitServer) != begun_ || code == RPCCode::kShutdown,
       begun_ ? "a second kInitServer" : "a message before kInitServer");
  switch (code) {
    case RPCCode::kShutdown: break;
    case RPCCode::kInitServer:
      CheckInit(&in);
      begun_ = true;
      break;
    case RPCCode::kCallFunc: {
      const auto function = in.Next<uint64_t>();
      Want(handed_.IsObject(function, kTVMFFIFunction), "a call of what is no function of this session");
      CheckHandles(handed_, in.Values());
      break;
    }
    case RPCCode::kCopyFromRemote: CheckCopy(handed_, &in, false); break;
    case RPCCode::kCopyToRemote: CheckCopy(handed_, &in, true); break;
    default: {
      Want(code >= RPCCode::kSyscallCodeStart && code <= RPCCode::kDevGetCurrentStream,
           "the code " + std::to_string(code_) + ", which no client sends");
      const std::vector<Value> values = in.Values();
      CheckForm(code, values);
      System(code, values);
    }
  }
  in.End();
}

void Fence::System(RPCCode code, const std::vector<Value>& values) {
  switch (code) {
    case RPCCode::kDevAllocData:
      CheckDevice(values[0].device);
      where_ = values[0].device;
      asked_ = values[1].bits;
      // size_t may have 32 bits.
      Want(asked_ <= PTRDIFF_MAX, "a wish for " + std::to_string(asked_) + " bytes of memory");
      Want(std::has_single_bit(values[2].bits) && values[2].bits <= kMostAlignment,
           "memory aligned to " + std::to_string(values[2].bits) + " bytes");
      break;
    case RPCCode::kDevAllocDataWithScope:
      CheckDevice(values[0].tensor.device);
      where_ = values[0].tensor.device;
      asked_ = values[0].tensor.bytes;
      break;
    case RPCCode::kFreeHandle:
      Want(handed_.DropObject(values[0].bits), "an object to free that was never handed out");
      break;
    case RPCCode::kDevFreeData:
      CheckDevice(values[0].device);
      Want(handed_.DropMemory(values[0].device, values[1].bits), "memory to free that was never handed out");
      break;
    default: CheckHandles(handed_, values);
  }
}

void Fence::Answer(const void* data, size_t size) {
  try {
    Keep(static_cast<RPCCode>(std::exchange(code_, 0)), FrameReader(data, size));
  } catch (const Failure&) {  // TVM could not finish it: nothing was handed out
  }
}

void Fence::Keep(RPCCode code, FrameReader in) {
  const bool memory = code == RPCCode::kDevAllocData || code == RPCCode::kDevAllocDataWithScope;
  if (!memory && code != RPCCode::kGetGlobalFunc && code != RPCCode::kCallFunc) return;
  in.Next<uint64_t>();
  if (static_cast<RPCCode>(in.Next<int32_t>()) != RPCCode::kReturn) return;
  const auto count = in.Next<int32_t>();
  // What a function returns follows its type, and a tensor is followed by the object that holds it.
  const int32_t type = code == RPCCode::kCallFunc ? static_cast<int32_t>(in.Value().bits) : 0;
  if (code == RPCCode::kCallFunc && count < 2) return;
  const int32_t kind = in.Peek();
  if (kind != kTVMFFIOpaquePtr && kind != kTVMFFIDLTensorPtr) return;
  const edge::Value value = in.Value();
  if (kind == kTVMFFIDLTensorPtr) {
    const TensorArgument& tensor = value.tensor;
    if (count == 3) {
      handed_.Tensor(in.Value().bits, type, tensor.device, tensor.data, tensor.offset + tensor.bytes);
    }
  } else if (value.bits == 0) {
    return;
  } else if (memory) {
    handed_.Memory(where_, value.bits, asked_);
  } else if (code == RPCCode::kGetGlobalFunc) {
    handed_.Object(value.bits, kTVMFFIFunction);
  } else if (type >= kTVMFFIStaticObjectBegin) {
    handed_.Object(value.bits, type);
  } else {
    handed_.Pointer(value.bits);
  }
}

}  // namespace edge
