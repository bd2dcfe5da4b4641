#include "vta/run/call.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>

#include <cstring>
#include <string>

#include "text.h"

namespace edge::vta {
namespace {

// The same but for extents of 1.
bool SameShape(const DLTensor& tensor, const Value& value) {
  std::vector<int64_t> has, wants;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] != 1) has.push_back(tensor.shape[i]);
  }
  for (const uint32_t extent : value.shape) {
    if (extent != 1) wants.push_back(extent);
  }
  return has == wants;
}

void CheckValue(const DLTensor& tensor, const Value& value, const std::string& what) {
  std::string shape;
  for (int i = 0; i < tensor.ndim; ++i) shape += (shape.empty() ? "" : ", ") + std::to_string(tensor.shape[i]);
  if (!IsOf(tensor, kDLInt) || tensor.device.device_type != kDLCPU || !SameShape(tensor, value) ||
      !tvm::ffi::IsContiguous(tensor)) {
    throw Refusal("program", what + " is " + tvm::ffi::DLDataTypeToString(tensor.dtype) + "[" + shape +
                                 "] where the program has int8" + value.Shape() + " in the host's memory");
  }
}

}  // namespace

uint8_t* Bytes(const DLTensor& tensor) { return static_cast<uint8_t*>(tensor.data) + tensor.byte_offset; }

bool IsOf(const DLTensor& tensor, uint8_t code) {
  return tensor.dtype.code == code && tensor.dtype.bits == 8 && tensor.dtype.lanes == 1;
}

Call::Call(const std::vector<Value>& inputs, const std::vector<Value>& outputs, const std::vector<DLTensor*>& given,
           const std::vector<DLTensor*>& wanted)
    : inputs_(inputs), outputs_(outputs), given_(given), wanted_(wanted) {
  if (given.size() != inputs.size() || wanted.size() != outputs.size()) {
    throw Refusal("program", "it was called with " + Counted(static_cast<int64_t>(given.size()), "input") + " and " +
                                 Counted(static_cast<int64_t>(wanted.size()), "output") + ", and has " +
                                 std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) CheckValue(*given[i], inputs[i], "input " + std::to_string(i));
  for (size_t i = 0; i < outputs.size(); ++i) CheckValue(*wanted[i], outputs[i], "output " + std::to_string(i));
}

void Call::Put(uint8_t* memory) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::memcpy(memory + inputs_[i].offset, Bytes(*given_[i]), inputs_[i].bytes);
  }
}

void Call::Get(const uint8_t* memory) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    std::memcpy(Bytes(*wanted_[i]), memory + outputs_[i].offset, outputs_[i].bytes);
  }
}

}  // namespace edge::vta
