#include "numbers.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace edge {
namespace {

template <typename Number>
double As(const char* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

double Half(const char* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : NAN;
  return (bits & 0x8000) != 0 ? -value : value;
}

constexpr NumberType kNumberTypes[] = {
    {"float32", 4, true, As<float>},    {"float16", 2, true, Half},           {"float64", 8, true, As<double>},
    {"int8", 1, false, As<int8_t>},     {"uint8", 1, false, As<uint8_t>},     {"int16", 2, false, As<int16_t>},
    {"uint16", 2, false, As<uint16_t>}, {"int32", 4, false, As<int32_t>},     {"uint32", 4, false, As<uint32_t>},
    {"int64", 8, false, As<int64_t>},   {"uint64", 8, false, As<uint64_t>},   {"bool", 1, false, As<uint8_t>}};

}  // namespace

const NumberType* NumberTypeOf(const std::string& name) {
  for (const NumberType& type : kNumberTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

bool CountOf(const std::vector<int64_t>& shape, size_t* count) {
  *count = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(*count, extent, count)) return false;
  }
  return true;
}

}  // namespace edge
