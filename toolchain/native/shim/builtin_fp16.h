// Conversions between IEEE 754 formats of different width, round to nearest, ties to even.
// The names are the ones that the runtime sources call.
#pragma once

#include <bit>
#include <cstdint>

// Source type, its bits as an integer, its fraction bits; then the same of the destination,
// which is given as its bits.
template <typename Src, typename SrcBits, int kSrcFraction, typename Dst, typename DstBits,
          int kDstFraction>
inline Dst __truncXfYf2__(Src value) {
  constexpr int kSrcExponent = sizeof(SrcBits) * 8 - 1 - kSrcFraction;
  constexpr int kDstExponent = sizeof(DstBits) * 8 - 1 - kDstFraction;
  constexpr int kSrcMax = (1 << kSrcExponent) - 1, kDstMax = (1 << kDstExponent) - 1;
  constexpr SrcBits kOne = 1;
  const SrcBits bits = std::bit_cast<SrcBits>(value);
  const auto sign = static_cast<DstBits>(bits >> (sizeof(SrcBits) * 8 - 1));
  const DstBits signed_zero = static_cast<DstBits>(sign << (sizeof(DstBits) * 8 - 1));
  const DstBits infinity = static_cast<DstBits>(signed_zero | kDstMax << kDstFraction);
  const int exponent = static_cast<int>(bits >> kSrcFraction) & kSrcMax;
  const SrcBits fraction = bits & ((kOne << kSrcFraction) - 1);
  if (exponent == kSrcMax) {
    return static_cast<Dst>(fraction == 0 ? infinity : infinity | 1 << (kDstFraction - 1));
  }
  // Biased for the destination; at zero or below the result is subnormal there.
  const int biased = exponent - kSrcMax / 2 + kDstMax / 2;
  if (biased >= kDstMax) return static_cast<Dst>(infinity);
  const int shift = kSrcFraction - kDstFraction + (biased > 0 ? 0 : 1 - biased);
  if (exponent == 0 || shift > kSrcFraction + 1) return static_cast<Dst>(signed_zero);
  const SrcBits significand = fraction | kOne << kSrcFraction;
  SrcBits result = significand >> shift;
  const SrcBits rest = significand & ((kOne << shift) - 1), half = kOne << (shift - 1);
  if (rest > half || (rest == half && (result & 1) != 0)) ++result;
  // The implicit one adds itself to the exponent, and so does a carry out of the rounding.
  if (biased > 0) result += static_cast<SrcBits>(biased - 1) << kDstFraction;
  return static_cast<Dst>(signed_zero | static_cast<DstBits>(result));
}

template <typename Src, typename SrcBits, int kSrcFraction, typename Dst, typename DstBits,
          int kDstFraction>
inline Dst __extendXfYf2__(Src value) {
  constexpr int kSrcExponent = sizeof(SrcBits) * 8 - 1 - kSrcFraction;
  constexpr int kDstExponent = sizeof(DstBits) * 8 - 1 - kDstFraction;
  constexpr int kSrcMax = (1 << kSrcExponent) - 1, kDstMax = (1 << kDstExponent) - 1;
  const auto bits = static_cast<SrcBits>(value);
  DstBits result = static_cast<DstBits>(bits >> (sizeof(SrcBits) * 8 - 1))
                   << (sizeof(DstBits) * 8 - 1);
  int exponent = bits >> kSrcFraction & kSrcMax;
  DstBits fraction = bits & ((1u << kSrcFraction) - 1);
  if (exponent == kSrcMax) {
    exponent = kDstMax;
  } else if (exponent != 0) {
    exponent += kDstMax / 2 - kSrcMax / 2;
  } else if (fraction != 0) {
    exponent = kDstMax / 2 - kSrcMax / 2 + 1;
    while ((fraction >> kSrcFraction & 1) == 0) {
      fraction <<= 1;
      --exponent;
    }
    fraction &= (DstBits{1} << kSrcFraction) - 1;
  }
  result |= static_cast<DstBits>(exponent) << kDstFraction;
  result |= fraction << (kDstFraction - kSrcFraction);
  return std::bit_cast<Dst>(result);
}
