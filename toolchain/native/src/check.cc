// The packed functions edge.check.indices and edge.check.divisor: what networks call with values that decide an
// address or a division, before anything is computed with them. They hand on what is safe, or say what is not.
#include "check.h"

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/tensor.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

using tvm::ffi::Shape;
using tvm::ffi::String;
using tvm::runtime::Tensor;

namespace edge::check {
namespace {

constexpr DLDevice kHost{kDLCPU, 0};

[[noreturn]] void Refuse(const std::string& message) { throw tvm::ffi::Error(kValueError, message, ""); }

// " at [2, 0]"; nothing of a tensor that is one number.
std::string At(const Tensor& tensor, int64_t number) {
  std::string place;
  for (int axis = tensor->ndim - 1; axis >= 0; --axis) {
    place = std::to_string(number % tensor->shape[axis]) + (place.empty() ? "" : ", ") + place;
    number /= tensor->shape[axis];
  }
  return place.empty() ? "" : " at [" + place + "]";
}

int64_t Count(const Tensor& tensor) {
  int64_t count = 1;
  for (int axis = 0; axis < tensor->ndim; ++axis) count *= tensor->shape[axis];
  return count;
}

// The tensor itself where the host can read it, else a copy.
Tensor OnHost(const Tensor& tensor) {
  if (!tvm::ffi::IsContiguous(*tensor.operator->())) Refuse("edge.check: the values are not contiguous");
  return tensor->device.device_type == kDLCPU ? tensor : tensor.CopyTo(kHost);
}

template <typename Number>
const Number* Data(const Tensor& tensor) {
  return reinterpret_cast<const Number*>(static_cast<const char*>(tensor->data) + tensor->byte_offset);
}

// Runs `body` on the output, by way of the host's memory where that is another one.
template <typename Body>
void Fill(Tensor out, const Body& body) {
  if (out->device.device_type == kDLCPU) {
    body(static_cast<char*>(out->data) + out->byte_offset);
    return;
  }
  Tensor here = Tensor::Empty(Shape(out->shape, out->shape + out->ndim), out->dtype, kHost);
  body(static_cast<char*>(here->data));
  out.CopyFrom(here);
  tvm::runtime::DeviceAPI::Get(out->device)->StreamSync(out->device, nullptr);  // `here` ends now
}

// What negative values are.
enum Negative : int64_t { kRefused, kFromEnd, kTaken };

struct Range {
  const int64_t* extents;  // of the columns; 0: any value will do
  int64_t columns;
  Negative negative;
  std::string what, who;

  int64_t Begin(int64_t extent) const { return negative == kRefused ? 0 : -extent; }
};

template <typename Number>
bool Inside(Number value, int64_t begin, int64_t end) {
  using Wide = std::conditional_t<std::is_integral_v<Number>, int64_t, Number>;
  return (value >= static_cast<Wide>(begin)) & (value < static_cast<Wide>(end));  // false of NaN
}

template <typename Number>
[[noreturn]] void Outside(const Tensor& tensor, const Number* values, const Range& range) {
  int64_t number = 0, extent = 0;
  for (;; ++number) {
    extent = range.extents[number % range.columns];
    if (extent != 0 && !Inside(values[number], range.Begin(extent), extent)) break;
  }
  std::ostringstream message;
  message << range.what << " holds " << values[number] << At(tensor, number) << ", and " << range.who << " from "
          << range.Begin(extent) << " to " << extent - 1;
  Refuse(message.str());
}

// Writes integers, counted from the beginning. Nothing but sums and bits, and one exit: the loop becomes vectors,
// also where there is no comparison of 64 bits.
template <typename Number>
bool WrappedAlike(const Number* values, Number* out, int64_t count, int64_t extent, Negative negative) {
  using Bits = std::make_unsigned_t<Number>;
  const Bits last = static_cast<Bits>(extent - 1), added = negative == kFromEnd ? static_cast<Bits>(extent) : 0;
  Bits bad = 0;  // its highest bit: one was below 0, or above the last
  for (int64_t number = 0; number < count; ++number) {
    const Number value = values[number];
    const Bits wrapped = static_cast<Bits>(value) + (static_cast<Bits>(value >> (sizeof(Number) * 8 - 1)) & added);
    bad |= wrapped | (last - wrapped);
    out[number] = static_cast<Number>(wrapped);
  }
  return static_cast<Number>(bad) >= 0;
}

// All are looked at before the answer is given.
template <typename Number>
bool Wrapped(const Number* values, Number* out, int64_t count, const Range& range) {
  if constexpr (std::is_integral_v<Number>) {
    constexpr int64_t kMost = std::numeric_limits<Number>::max();
    const int64_t extent = range.extents[0];
    if (range.columns == 1 && extent > 0 && extent <= kMost && range.negative != kTaken) {
      return WrappedAlike(values, out, count, extent, range.negative);
    }
  }
  bool good = true;
  for (int64_t number = 0; number < count; ++number) {
    const Number value = values[number];
    const int64_t extent = range.extents[number % range.columns];
    const bool behind = extent != 0 && range.negative == kFromEnd && value < Number(0);
    good &= extent == 0 || Inside(value, range.Begin(extent), extent);
    out[number] = static_cast<Number>(value + (behind ? static_cast<Number>(extent) : Number(0)));
  }
  return good;
}

template <typename Number>
void CheckRange(const Tensor& tensor, const Tensor& out, const Range& range) {
  const Tensor here = OnHost(tensor);
  const Number* values = Data<Number>(here);
  const int64_t count = Count(tensor);
  Fill(out, [&](char* written) {
    if (!Wrapped(values, reinterpret_cast<Number*>(written), count, range)) Outside(tensor, values, range);
  });
}

void CheckSame(const Tensor& tensor, const Tensor& out) {
  if (Count(tensor) != Count(out) || tensor->dtype != out->dtype || !tvm::ffi::IsContiguous(*out.operator->())) {
    Refuse("edge.check: the output is not like the input");
  }
}

void Indices(Tensor tensor, Shape extents, int64_t negative, String what, String who, Tensor out) {
  CheckSame(tensor, out);
  const Range range{extents.data(), static_cast<int64_t>(extents.size()), static_cast<Negative>(negative), what, who};
  if (range.columns == 0 || Count(tensor) % range.columns != 0) Refuse("edge.check.indices: no such columns");
  const DLDataType dtype = tensor->dtype;
  if (dtype.lanes == 1 && dtype.code == kDLInt && dtype.bits == 64) return CheckRange<int64_t>(tensor, out, range);
  if (dtype.lanes == 1 && dtype.code == kDLInt && dtype.bits == 32) return CheckRange<int32_t>(tensor, out, range);
  if (dtype.lanes == 1 && dtype.code == kDLFloat && dtype.bits == 32) return CheckRange<float>(tensor, out, range);
  Refuse("edge.check.indices: of " + tvm::ffi::DLDataTypeToString(dtype));
}

template <typename Number>
void CheckZeros(const Tensor& tensor, const Tensor& out, const std::string& what, const std::string& who) {
  const Tensor here = OnHost(tensor);
  const Number* values = Data<Number>(here);
  const int64_t count = Count(tensor);
  bool zero = false;
  for (int64_t number = 0; number < count; ++number) zero |= values[number] == 0;
  if (zero) {
    int64_t number = 0;
    while (values[number] != 0) ++number;
    Refuse(what + " holds 0" + At(tensor, number) + ", and " + who);
  }
  Fill(out, [&](char* written) { std::memcpy(written, values, count * sizeof(Number)); });
}

void Divisor(Tensor tensor, String what, String who, Tensor out) {
  CheckSame(tensor, out);
  const DLDataType dtype = tensor->dtype;
  const bool integer = dtype.lanes == 1 && (dtype.code == kDLInt || dtype.code == kDLUInt);
  if (integer && dtype.bits == 8) return CheckZeros<uint8_t>(tensor, out, what, who);
  if (integer && dtype.bits == 16) return CheckZeros<uint16_t>(tensor, out, what, who);
  if (integer && dtype.bits == 32) return CheckZeros<uint32_t>(tensor, out, what, who);
  if (integer && dtype.bits == 64) return CheckZeros<uint64_t>(tensor, out, what, who);
  Refuse("edge.check.divisor: of " + tvm::ffi::DLDataTypeToString(dtype));
}

}  // namespace
}  // namespace edge::check

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef().def("edge.check.indices", edge::check::Indices).def("edge.check.divisor", edge::check::Divisor);
}
