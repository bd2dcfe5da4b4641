#include "frame.h"

#include <tvm/ffi/c_api.h>

#include "edge_rt.h"
#include "text.h"

namespace edge {
namespace {

// TVM takes 16 bytes for a value, of which a client sends at least 4.
constexpr int32_t kMostValues = 1 << 16;

}  // namespace

Failure Refused(const std::string& what) {
  return Failure(EDGE_FAILED, "refused", "refused: " + what);
}

std::string Name(RPCCode code) { return tvm::runtime::RPCCodeToString(code); }

std::string_view FrameReader::Bytes(uint64_t size) {
  if (size > left_) {
    throw Refused("a message that announces " + std::to_string(size) + " bytes where " +
                  std::to_string(left_) + " are left");
  }
  const std::string_view bytes(at_, static_cast<size_t>(size));
  at_ += bytes.size();
  left_ -= bytes.size();
  return bytes;
}

int32_t FrameReader::Peek() const { return FrameReader(*this).Next<int32_t>(); }

void FrameReader::End() const {
  if (left_ != 0) throw Refused("a message with " + Counted(static_cast<int64_t>(left_), "byte") + " too many");
}

TensorArgument FrameReader::Tensor() {
  TensorArgument tensor;
  tensor.data = Next<uint64_t>();
  tensor.device = Next<Device>();
  const auto rank = Next<int32_t>();
  const auto dtype = Next<DLDataType>();
  if (rank < 0) throw Refused("a tensor of rank " + std::to_string(rank));
  uint64_t bits = static_cast<uint64_t>(dtype.bits) * dtype.lanes;
  if (bits == 0 || dtype.lanes > INT16_MAX) throw Refused("a tensor of a type without a size");
  uint64_t elements = 1;  // TVM counts them in a size_t, which may have 32 bits: a byte may be eight of them
  bool empty = false, fits = true;
  for (int32_t i = 0; i < rank; ++i) {
    const auto extent = Next<int64_t>();
    if (extent < 0) throw Refused("a tensor with the extent " + std::to_string(extent));
    empty = empty || extent == 0;
    // TVM multiplies from left to right as well: the product of what is before a 0 must fit too.
    fits = fits && !__builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits) &&
           !__builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements) && elements <= PTRDIFF_MAX;
  }
  if (!fits || bits / 8 >= PTRDIFF_MAX) throw Refused("a tensor of more bytes than there can be");
  tensor.bytes = empty ? 0 : (bits + 7) / 8;
  tensor.offset = Next<uint64_t>();
  return tensor;
}

Value FrameReader::Value() {
  edge::Value value;
  value.type = Next<int32_t>();
  switch (value.type) {
    case kTVMFFINone: break;
    case kTVMFFIBool:
    case kTVMFFIInt:
    case kTVMFFIFloat:
    case kTVMFFIOpaquePtr:
    case kTVMFFIFunction:
    case kTVMFFIModule:
    case kTVMFFIDataType:  // four bytes and as many without a meaning
      value.bits = Next<uint64_t>();
      break;
    case kTVMFFIDevice: value.device = Next<Device>(); break;
    case kTVMFFIDLTensorPtr: value.tensor = Tensor(); break;
    case kTVMFFIRawStr:
      if (Bytes(Next<uint64_t>()).find('\0') != std::string_view::npos) {
        throw Refused("a text that is shorter than its length");
      }
      break;
    case kTVMFFIByteArrayPtr: Bytes(Next<uint64_t>()); break;
    case kTVMFFISmallStr:
    case kTVMFFIStr:
    case kTVMFFISmallBytes:
    case kTVMFFIBytes:
    case kRemoteObject: {
      // The type is said twice; short ones go as long ones.
      const auto inner = static_cast<int32_t>(Next<uint32_t>());
      const bool small = value.type == kTVMFFISmallStr || value.type == kTVMFFISmallBytes;
      const int32_t whole = value.type == kTVMFFISmallStr ? kTVMFFIStr : kTVMFFIBytes;
      if (inner != (small ? whole : value.type)) throw Refused("a value of two types");
      value.type = inner;
      if (inner == kRemoteObject) {
        value.bits = Next<uint64_t>();
      } else {
        Bytes(Next<uint64_t>());
      }
      break;
    }
    default: throw Refused("a value of the type " + std::to_string(value.type) + ", which no client sends");
  }
  return value;
}

std::vector<Value> FrameReader::Values() {
  const auto count = Next<int32_t>();
  if (count < 0 || count > kMostValues || static_cast<uint64_t>(count) > left_ / sizeof(int32_t)) {
    throw Refused("a message that announces " + Counted(count, "value"));
  }
  std::vector<edge::Value> values;
  values.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) values.push_back(Value());
  return values;
}

}  // namespace edge
