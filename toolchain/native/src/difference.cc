#include "difference.h"

#include <algorithm>
#include <cmath>

namespace edge {

bool Elements::SameBits(const Elements& other, size_t i) const {
  return std::equal(data_ + i * type_.bytes, data_ + (i + 1) * type_.bytes, other.data_ + i * type_.bytes);
}

bool Elements::Finite() const {
  for (size_t i = 0; i < count_; ++i) {
    if (!std::isfinite((*this)[i])) return false;
  }
  return true;
}

double ErrorAt(const Elements& output, const Elements& expected, size_t i) {
  const double error = std::abs(output[i] - expected[i]);
  const bool exact = !output.type().inexact && &output.type() == &expected.type();
  return exact && !output.SameBits(expected, i) ? std::max(error, 1.0) : error;
}

Difference OfValues(const Elements& output, const Elements& expected) {
  Difference difference;
  for (size_t i = 0; i < expected.count(); ++i) {
    const double exact = expected[i];
    if (!std::isfinite(exact)) continue;
    difference.scale = std::max(difference.scale, std::abs(exact));
    const double error = ErrorAt(output, expected, i);
    if (!std::isnan(difference.error) && !(error <= difference.error)) difference.error = error;
    ++difference.compared;
  }
  return difference;
}

size_t CountBeyond(const Elements& output, const Elements& expected, double limit) {
  size_t beyond = 0;
  for (size_t i = 0; i < expected.count(); ++i) {
    beyond += std::isfinite(expected[i]) && ErrorAt(output, expected, i) > limit;
  }
  return beyond;
}

}  // namespace edge
