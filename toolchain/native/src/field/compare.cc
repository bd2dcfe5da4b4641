#include "field/compare.h"

#include <algorithm>
#include <cmath>

#include "difference.h"
#include "json.h"
#include "numbers.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr double kBillion = 1e9;
constexpr double kSlack = 0.01;               // in steps: how far a float may be from the exact multiple of a step
// As models/deviation.py has them, which says why.
constexpr double kLeastProbability = 1e-30, kLeastOfHalves = 0x1p-14, kLeastSpread = 1e-3, kLeastScale = 1e-4;

Deviation Incomparable(std::string problem) { return {false, std::nullopt, std::move(problem)}; }

std::string Shape(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += Cat({text.empty() ? "" : ", ", extent});
  return "[" + text + "]";
}

// Probabilities below it carry no information.
double Least(const Elements& elements) { return elements.type().bytes == 2 ? kLeastOfHalves : kLeastProbability; }

double Logarithm(const Elements& elements, size_t i) { return std::log(std::max(elements[i], Least(elements))); }

// Goes through the elements of an array in their order, and knows in which part each lies.
class Places {
 public:
  Places(const std::vector<int64_t>& shape, const std::vector<PartEnds>& parts) : shape_(shape), index_(shape.size()) {
    for (auto along = parts.rbegin(); along != parts.rend(); ++along) {
      axes_.push_back({along->axis, &along->ends, 0, count_});
      count_ *= along->ends.size();
    }
  }

  size_t count() const { return count_; }
  size_t part() const {
    size_t part = 0;
    for (const Along& along : axes_) part += along.at * along.stride;
    return part;
  }
  void Next() {
    for (size_t axis = shape_.size(); axis-- > 0;) {
      const bool over = ++index_[axis] == shape_[axis];
      if (over) index_[axis] = 0;
      for (Along& along : axes_) {
        if (along.axis != axis) continue;
        if (over) along.at = 0;
        if (!over && index_[axis] == (*along.ends)[along.at]) ++along.at;
      }
      if (!over) return;
    }
  }

 private:
  struct Along {
    size_t axis;
    const std::vector<int64_t>* ends;
    size_t at, stride;
  };
  const std::vector<int64_t>& shape_;
  std::vector<int64_t> index_;
  std::vector<Along> axes_;
  size_t count_ = 1;
};

// The difference that is largest relative to its own part.
Difference OfParts(const Elements& output, const Elements& expected, const std::vector<int64_t>& shape,
                   const std::vector<PartEnds>& parts) {
  Places first(shape, parts), second(shape, parts);
  std::vector<double> scales(first.count());
  for (size_t i = 0; i < expected.count(); ++i, first.Next()) {
    double& scale = scales[first.part()];
    scale = std::max(scale, std::abs(expected[i]));
  }
  const double least = kLeastScale * *std::max_element(scales.begin(), scales.end());
  for (double& scale : scales) scale = std::max(scale, least);
  Difference worst{0, scales[0]};
  for (size_t i = 0; i < expected.count(); ++i, second.Next()) {
    const Difference here{std::abs(output[i] - expected[i]), scales[second.part()]};
    if (here.Relative() > worst.Relative()) worst = here;
  }
  return worst;
}

bool Fit(const std::vector<PartEnds>& parts, const std::vector<int64_t>& shape) {
  return std::all_of(parts.begin(), parts.end(), [&](const PartEnds& along) {
    return along.axis < shape.size() && along.ends.back() == shape[along.axis];
  });
}

// Mean logarithm of the numbers of a row where the expected ones are above 0; of a single number 0.
double Mean(const Elements& numbers, const Elements& expected, size_t begin, size_t end, bool single) {
  double sum = 0, count = 0;
  for (size_t i = begin; i < end && !single; ++i) {
    if (!(expected[i] > 0)) continue;
    sum += Logarithm(numbers, i);
    ++count;
  }
  return sum / std::max(count, 1.0);
}

// Centred over the last axis, where they equal the centred logits.
Difference OfLogarithms(const Elements& output, const Elements& expected, const std::vector<int64_t>& shape) {
  double error = 0, error_of_zeros = 0, spread = kLeastSpread;
  const bool single = shape.empty();
  const size_t row = single ? 1 : static_cast<size_t>(shape.back());
  for (size_t begin = 0; begin < expected.count(); begin += row) {
    const double mean = Mean(output, expected, begin, begin + row, single);
    const double expected_mean = Mean(expected, expected, begin, begin + row, single);
    for (size_t i = begin; i < begin + row; ++i) {
      const double exact = Logarithm(expected, i) - expected_mean;
      const bool counted = expected[i] > 0;
      double& largest = counted ? error : error_of_zeros;
      largest = std::max(largest, std::abs(Logarithm(output, i) - mean - exact));
      if (counted) spread = std::max(spread, std::abs(exact));
    }
  }
  const double own_scale = std::max(spread, -std::log(Least(expected)));
  return {std::max(error, error_of_zeros * (spread / own_scale)), spread};
}

// A common factor, and what is below 0, show in the values alone; models/deviation.py says why their scale is this one.
Difference OfProbabilities(const Elements& output, const Elements& expected, const std::vector<int64_t>& shape) {
  const Difference logarithms = OfLogarithms(output, expected, shape);
  Difference values = OfValues(output, expected);
  values.scale *= 1 + 2 * logarithms.scale;
  return values.Relative() > logarithms.Relative() ? values : logarithms;
}

int64_t Billionths(double value) {
  const double scaled = value * kBillion;
  return scaled < static_cast<double>(kLargest) ? std::llround(scaled) : kLargest;
}

}  // namespace

Deviation Compare(const OutputTest& test, const Array& output, const Array& expected) {
  if (output.shape != expected.shape) {
    return Incomparable(Cat({"shape ", Shape(output.shape), " where ", Shape(expected.shape), " is expected"}));
  }
  if (output.dtype != expected.dtype) return Incomparable(Cat({"type ", output.dtype, " where ", expected.dtype, " is expected"}));
  const NumberType* type = NumberTypeOf(expected.dtype);
  size_t count;
  if (type == nullptr || !CountOf(expected.shape, &count) || count > SIZE_MAX / type->bytes ||
      output.data.size() != count * type->bytes || expected.data.size() != count * type->bytes) {
    return Incomparable(Cat({"values of type ", expected.dtype, " that are not as many as the shape says"}));
  }
  const bool steps = test.compare == Comparison::kSteps, equal = test.compare == Comparison::kEqual;
  if (!steps && equal == type->inexact) {
    return Incomparable(Cat({"values of type ", expected.dtype, " can't be compared in the way that the release says"}));
  }
  if (!Fit(test.parts, expected.shape)) return Incomparable("the release's parts are not those of the output");
  const Elements y(output.data.data(), *type, count), r(expected.data.data(), *type, count);
  if (!y.Finite()) return Incomparable("a value is not finite");
  if (!r.Finite()) return Incomparable("an expected value is not finite");

  const double step = steps ? *test.step : 0;
  Difference difference = test.compare == Comparison::kLogProbabilities ? OfProbabilities(y, r, expected.shape)
                          : test.parts.empty()                          ? OfValues(y, r)
                                                                        : OfParts(y, r, expected.shape, test.parts);
  const double allowed = static_cast<double>(test.tolerance_ppb) / kBillion;
  double tolerance = equal ? 0 : allowed;
  if (equal) difference.scale = std::max(difference.scale, 1.0);
  if (steps) {
    if (difference.scale == 0) difference.scale = 1;
    tolerance = (allowed + kSlack) * step / difference.scale;
  }
  if (difference.error > 0 && difference.scale == 0) return Incomparable("the expected values are zero everywhere");
  const double relative = difference.Relative();
  if (!std::isfinite(relative)) return Incomparable("the difference is not finite");

  Deviation deviation{true, Billionths(steps ? difference.error / step : relative), ""};
  const auto off = steps && test.values ? static_cast<int64_t>(CountBeyond(y, r, step / 2)) : 0;
  if (off > test.values.value_or(0)) {
    deviation.passed = false;
    deviation.problem = Cat({Counted(off, "value is", "values are"), " off by half a step or more, and ", *test.values, " may be"});
  }
  if (!(relative <= tolerance)) {
    deviation.passed = false;
    deviation.problem = steps ? Cat({"off by ", ShortNumber(difference.error / step), " steps where ", ShortNumber(allowed), " are allowed"})
                              : Cat({"an error of ", ShortNumber(relative), " where ", ShortNumber(tolerance), " is allowed"});
  }
  return deviation;
}

}  // namespace edge::field
