// How far an array is from the one that was expected: the numbers that releases (field/compare.h) and candidates
// (offline/compare.h) are judged by.
#pragma once

#include <cstddef>

#include "npy.h"
#include "numbers.h"

namespace edge {

// An array's elements as numbers, in the order in which they lie in memory. The bytes must outlive it.
class Elements {
 public:
  Elements(const char* data, const NumberType& type, size_t count) : data_(data), type_(type), count_(count) {}

  double operator[](size_t i) const { return type_.value(data_ + i * type_.bytes); }
  size_t count() const { return count_; }
  const NumberType& type() const { return type_; }
  bool SameBits(const Elements& other, size_t i) const;
  bool Finite() const;

 private:
  const char* data_;
  const NumberType& type_;
  size_t count_;
};

// The largest difference, and what it is relative to.
struct Difference {
  double error = 0, scale = 0;
  size_t compared = 0;  // elements

  double Relative() const { return error == 0 ? 0 : error / scale; }
};

// How far one element is from the expected one. Integers of one type that differ are at least 1 apart: a double may
// round the difference of large ones to zero.
double ErrorAt(const Elements& output, const Elements& expected, size_t i);

// Relative to the largest expected value. Where that is not finite, the output is not compared; one that is NaN
// elsewhere makes the error NaN.
Difference OfValues(const Elements& output, const Elements& expected);

// How many of the compared elements are further off than `limit`.
size_t CountBeyond(const Elements& output, const Elements& expected, double limit);

}  // namespace edge
