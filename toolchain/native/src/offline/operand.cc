#include "offline/operand.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "numbers.h"
#include "offline/plan.h"

namespace edge::offline {
namespace {

using Numbers = std::vector<int64_t>;

constexpr size_t kMostBytes = size_t{1} << 30;

[[noreturn, gnu::noinline]] void Refuse() { RefuseFolder("an operand is too large, or its steps are wrong"); }

size_t BytesOfNumber(const Array& array) {
  const NumberType* type = NumberTypeOf(array.dtype);
  if (type == nullptr) Refuse();
  return type->bytes;
}

// Never 0: the other extents of an empty array could be of any size.
size_t Count(const Numbers& shape, size_t bytes) {
  size_t count;
  if (shape.size() > kMostAxes || !CountOf(shape, &count) || count == 0 || count > kMostBytes / bytes) Refuse();
  return count;
}

// Numbers from one to the next along each axis.
void Strides(const Numbers& shape, int64_t* strides) {
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) strides[axis] = stride;
}

// Copies numbers between two arrays of other strides.
struct Copier {
  const Numbers& extents;
  const size_t bytes;
  const char* from;
  char* to;
  int64_t theirs[kMostAxes], ours[kMostAxes];

  void Copy(size_t axis, int64_t source, int64_t target) const {
    if (axis == extents.size()) {
      std::memcpy(to + target * bytes, from + source * bytes, bytes);
      return;
    }
    for (int64_t i = 0; i < extents[axis]; ++i) Copy(axis + 1, source + i * theirs[axis], target + i * ours[axis]);
  }
};

// Transposes by these axes, or pads by so many numbers before and behind each axis.
void Move(bool pads, const Numbers& numbers, size_t bytes, Array* array) {
  const size_t rank = array->shape.size();
  if (numbers.size() != (pads ? 2 * rank : rank)) Refuse();
  Numbers shape = array->shape;
  int64_t strides[kMostAxes];
  Copier copier{pads ? array->shape : shape, bytes, array->data.data(), nullptr, {}, {}};
  Strides(shape, strides);
  uint32_t seen = 0;
  for (size_t at = 0; at < numbers.size(); ++at) {
    if (pads) {
      if (__builtin_add_overflow(shape[at / 2], numbers[at], &shape[at / 2])) Refuse();
      copier.theirs[at / 2] = strides[at / 2];
    } else {
      const auto axis = static_cast<uint64_t>(numbers[at]);
      if (axis >= rank || (seen >> axis & 1) != 0) Refuse();
      seen |= 1u << axis;
      shape[at] = array->shape[axis];
      copier.theirs[at] = strides[axis];
    }
  }
  std::string data(array->data.empty() ? 0 : Count(shape, bytes) * bytes, '\0');
  if (!data.empty()) {
    Strides(shape, copier.ours);
    int64_t first = 0;
    for (size_t axis = 0; pads && axis < rank; ++axis) first += numbers[2 * axis] * copier.ours[axis];
    copier.to = data.data();
    copier.Copy(0, 0, first);
  }
  array->data.swap(data);
  array->shape.swap(shape);
}

double Dot(const double* row, const double* numbers, int64_t stride, int64_t count) {
  // A product that is added before it was rounded makes other bits, on the boards that have an instruction for it.
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
  double sum = *row * *numbers;
  for (int64_t at = 1; at < count; ++at) sum += row[at] * numbers[at * stride];
  return sum;
}

// Transforms the matrices in the last two axes. In the order of toolchain/arrays.py, and so with its bits.
void Transform(const Numbers& numbers, Array* array) {
  const size_t rank = array->shape.size(), size = numbers.size();
  if (array->dtype != "float32" || rank < 2 || size < 2) Refuse();
  int64_t &rows = array->shape[rank - 2], &columns = array->shape[rank - 1];
  const int64_t high = rows, wide = columns, most = static_cast<int64_t>(size);
  rows = numbers[0];
  columns = numbers[1];
  if (std::min(rows, columns) < 1 || std::max({high, wide, rows, columns}) > most) Refuse();
  if (2 * (1 + rows * high + columns * wide) != most) Refuse();
  std::vector<double> matrices;
  for (size_t at = 2; at < size; at += 2) {
    if (numbers[at + 1] < 1) Refuse();
    matrices.push_back(static_cast<double>(numbers[at]) / static_cast<double>(numbers[at + 1]));
  }
  std::string data(array->data.empty() ? 0 : Count(array->shape, sizeof(float)) * sizeof(float), '\0');
  std::vector<double> from(high * wide), half(wide);
  const char* source = array->data.data();
  for (char* to = data.data(); to != data.data() + data.size();) {
    for (double& number : from) {
      float value;
      std::memcpy(&value, source, sizeof value);
      source += sizeof value;
      number = value;
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t at = 0; at < wide; ++at) half[at] = Dot(&matrices[row * high], &from[at], wide, high);
      for (int64_t column = 0; column < columns; ++column, to += sizeof(float)) {
        const auto value = static_cast<float>(Dot(&matrices[rows * high + column * wide], half.data(), 1, wide));
        std::memcpy(to, &value, sizeof value);
      }
    }
  }
  array->data.swap(data);
}

// The finalizer of splitmix64.
uint64_t Mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

// The bits of a float16 for a number that it has exactly: 112 is how much the exponents of the two types differ.
uint16_t Half(float value) {
  value *= 0x1p-112f;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits >> 13 & 0x7fff) | (bits >> 16 & 0x8000));
}

void DrawNumbers(const Operand& operand, size_t bytes, Array* array) {
  const bool half = bytes == 2;
  const size_t count = Count(array->shape, bytes);
  array->data.resize(count * bytes);
  const float deviation = std::ldexp(1.0f, operand.exponent - (half ? 8 : 17));
  const uint64_t begin = Mixed(operand.seed), third = 0x3ffff;
  for (size_t at = 0; at < count; ++at) {
    const uint64_t bits = Mixed(begin + (at + 1) * 0x9e3779b97f4a7c15), chance = operand.edges ? bits >> 56 : 128;
    const int number = static_cast<int>((bits & third) + (bits >> 18 & third) + (bits >> 36 & third)) - 393214;
    float value = static_cast<float>(half ? number >> 9 : number) * deviation;
    if (chance < 64) value = 0;
    if (chance >= 252) value *= half ? 8 : 64;
    const uint16_t stored = Half(value);
    std::memcpy(&array->data[at * bytes], half ? static_cast<const void*>(&stored) : &value, bytes);
  }
}

}  // namespace

int64_t Pack(const std::string& steps, Array* array) {
  const size_t bytes = BytesOfNumber(*array);
  Count(array->shape, bytes);
  const char *at = steps.data(), *end = at + steps.size();
  while (at != end) {
    const char kind = *at;
    Numbers numbers;
    do {
      int64_t number;
      const auto [behind, code] = std::from_chars(++at, end, number);
      if (code != std::errc() || (number < 0 && kind != 'm')) Refuse();
      numbers.push_back(number);
      at = behind;
    } while (at != end && *at == 'x');
    if (kind == 'r' && Count(numbers, bytes) == Count(array->shape, bytes)) {
      array->shape.swap(numbers);
    } else if (kind == 't' || kind == 'p' || kind == 'm') {
      kind == 'm' ? Transform(numbers, array) : Move(kind == 'p', numbers, bytes, array);
      Count(array->shape, bytes);
    } else {
      Refuse();
    }
    if (at == end) break;
    if (*at != ',') Refuse();
    ++at;
    if (at == end) Refuse();
  }
  return static_cast<int64_t>(Count(array->shape, bytes) * bytes);
}

Array Made(const Operand& operand, const std::string& member) {
  const bool drawn = operand.member.empty();
  Array array = drawn ? operand.drawn : ReadNpy(member);
  if (drawn) DrawNumbers(operand, BytesOfNumber(array), &array);
  if (!operand.steps.empty()) Pack(operand.steps, &array);
  return array;
}

}  // namespace edge::offline
