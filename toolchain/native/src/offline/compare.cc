#include "offline/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "edge_rt.h"
#include "failure.h"
#include "text.h"

namespace edge::offline {
namespace {

double Half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  if (exponent == 31) value = fraction == 0 ? HUGE_VAL : NAN;
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename Number>
double As(const char* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

struct Type {
  const char* name;
  size_t bytes;
  double (*value)(const char* at);
  uint64_t unwritten;
};

constexpr Type kTypes[] = {
    {"float32", 4, As<float>, 0x7fc00000},
    {"float16", 2, [](const char* at) { return Half(std::bit_cast<uint16_t>(std::to_array({at[0], at[1]}))); }, 0x7e00},
    {"float64", 8, As<double>, 0x7ff8000000000000},
    {"int8", 1, As<int8_t>, 0},
    {"uint8", 1, As<uint8_t>, 0},
    {"int16", 2, As<int16_t>, 0},
    {"uint16", 2, As<uint16_t>, 0},
    {"int32", 4, As<int32_t>, 0},
    {"uint32", 4, As<uint32_t>, 0},
    {"int64", 8, As<int64_t>, 0},
    {"uint64", 8, As<uint64_t>, 0},
    {"bool", 1, As<uint8_t>, 0}};

const Type& TypeOf(const std::string& name) {
  for (const Type& type : kTypes) {
    if (type.name == name) return type;
  }
  throw Failure(EDGE_USAGE, "folder", "an output of type " + Quote(name));
}

size_t Count(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) throw Failure(EDGE_USAGE, "folder", "an output is too large");
  }
  return count;
}

std::string Short(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace

Array Unwritten(const Output& output) {
  const Type& type = TypeOf(output.dtype);
  const size_t count = Count(output.shape);
  if (count > (size_t{1} << 30) / type.bytes) throw Failure(EDGE_USAGE, "folder", "an output is too large");
  Array array{output.dtype, output.shape, std::string(count * type.bytes, '\0')};
  for (size_t at = 0; at < array.data.size(); at += type.bytes) std::memcpy(&array.data[at], &type.unwritten, type.bytes);
  return array;
}

std::string Wrong(const Output& output, const std::string& bytes, const Array& expected) {
  const Type &type = TypeOf(output.dtype), &wanted = TypeOf(expected.dtype);
  const size_t count = Count(output.shape);
  if (expected.shape != output.shape || bytes.size() != count * type.bytes) {
    throw Failure(EDGE_USAGE, "folder", "an output and its expected values differ in shape");
  }
  double scale = 0, error = 0;
  size_t compared = 0, beyond = 0;
  for (size_t i = 0; i < count; ++i) {
    const double exact = wanted.value(&expected.data[i * wanted.bytes]);
    if (std::isfinite(exact)) scale = std::max(scale, std::abs(exact));
  }
  for (size_t i = 0; i < count; ++i) {
    const double exact = wanted.value(&expected.data[i * wanted.bytes]);
    if (!std::isfinite(exact)) continue;
    const double difference = std::abs(type.value(&bytes[i * type.bytes]) - exact);
    if (!std::isnan(error) && !(difference <= error)) error = difference;  // NaN stays
    compared += 1;
    beyond += difference > output.tolerance * scale;
  }
  if (error <= 1 && output.halves > 0 && static_cast<double>(beyond) <= output.halves * static_cast<double>(compared)) return "";
  if (error <= output.tolerance * scale) return "";
  return "differs from the definition by " + Short(error) + " where values reach " + Short(scale);
}

}  // namespace edge::offline
