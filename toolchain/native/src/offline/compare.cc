#include "offline/compare.h"

#include <cstdint>
#include <cstring>

#include "difference.h"
#include "numbers.h"
#include "text.h"

namespace edge::offline {
namespace {

const NumberType& TypeOf(const std::string& name) {
  if (const NumberType* type = NumberTypeOf(name)) return *type;
  RefuseFolder("an output of type " + Quote(name));
}

size_t Count(const std::vector<int64_t>& shape) {
  size_t count;
  if (!CountOf(shape, &count)) RefuseFolder("an output is too large");
  return count;
}

// The bits of NaN in each type of floating point; 0 for integers.
uint64_t Bits(const NumberType& type) {
  if (!type.inexact) return 0;
  return type.bytes == 4 ? 0x7fc00000 : type.bytes == 2 ? 0x7e00 : 0x7ff8000000000000;
}

}  // namespace

Array Unwritten(const Output& output) {
  const NumberType& type = TypeOf(output.dtype);
  const uint64_t unwritten = Bits(type);
  const size_t count = Count(output.shape);
  if (count > (size_t{1} << 30) / type.bytes) RefuseFolder("an output is too large");
  Array array{output.dtype, output.shape, std::string(count * type.bytes, '\0')};
  for (size_t at = 0; at < array.data.size(); at += type.bytes) std::memcpy(&array.data[at], &unwritten, type.bytes);
  return array;
}

std::string Wrong(const Output& output, const std::string& bytes, const Array& expected) {
  const NumberType &type = TypeOf(output.dtype), &wanted = TypeOf(expected.dtype);
  const size_t count = Count(output.shape);
  if (expected.shape != output.shape || bytes.size() != count * type.bytes) {
    RefuseFolder("an output and its expected values differ in shape");
  }
  const Elements values(bytes.data(), type, count), exact(expected.data.data(), wanted, count);
  const Difference difference = OfValues(values, exact);
  const double limit = output.tolerance * difference.scale;
  if (difference.error <= limit) return "";
  // Some sums end close to a half, and are rounded to the other integer.
  if (output.halves > 0 && difference.error <= 1 &&
      static_cast<double>(CountBeyond(values, exact, limit)) <= output.halves * static_cast<double>(difference.compared)) {
    return "";
  }
  return "differs from the definition by " + ShortNumber(difference.error) + " where values reach " + ShortNumber(difference.scale);
}

}  // namespace edge::offline
