// 16-bit floating-point numbers. Each operation rounds once, to the nearest, ties to even.
#pragma once

struct __half_raw {
  unsigned short x;
};

namespace edge {

template <class To, class From>
inline To Bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

inline float FloatOfHalf(unsigned short half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, exponent = half >> 10 & 0x1F, fraction = half & 0x3FF;
  if (exponent == 0x1F) return Bits<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return Bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24f;  // exact
  return sign ? -small : small;
}

inline unsigned short HalfOfDouble(double value) {
  const uint64_t bits = Bits<uint64_t>(value);
  const auto sign = static_cast<unsigned short>(bits >> 48 & 0x8000);
  const double size = fabs(value);
  if (!(size == size)) return static_cast<unsigned short>(sign | 0x7FFF);
  if (size >= 65520.0) return static_cast<unsigned short>(sign | 0x7C00);
  // Added to a number of the right size, what is too small for a half is rounded away.
  const int exponent = static_cast<int>(bits >> 52 & 0x7FF) - 1023;
  const int unit = (exponent < -14 ? -14 : exponent) - 10;  // exponent of a half's last place
  const double magic = Bits<double>(static_cast<uint64_t>(unit + 52 + 1023) << 52);
  const double rounded = (size + magic) - magic;
  const auto places = static_cast<unsigned>(rounded * Bits<double>(static_cast<uint64_t>(1023 - unit) << 52));
  // `places` has 11 bits; a carry goes on into the exponent, as it should.
  const unsigned short base = unit == -24 ? 0 : static_cast<unsigned short>((unit + 24) << 10);
  return static_cast<unsigned short>(sign | (base + places));
}

}  // namespace edge

struct __align__(2) __half {
  unsigned short bits;

  __half() = default;
  template <class Number, class = decltype(static_cast<double>(Number())), class = decltype(Number() % 1 == 0)>
  __half(Number value, int = 0) : bits(edge::HalfOfDouble(static_cast<double>(value))) {}
  __half(float value) : bits(edge::HalfOfDouble(value)) {}
  __half(double value) : bits(edge::HalfOfDouble(value)) {}
  __half(__half_raw raw) : bits(raw.x) {}
  operator float() const { return edge::FloatOfHalf(bits); }
};
using half = __half;

// Products, sums and quotients of halves in float, and then rounded, are as if rounded once: float has more than
// twice the digits.
#define EDGE_OPERATOR(op)                                                                              \
  inline __half operator op(__half a, __half b) { return __half(static_cast<float>(a) op static_cast<float>(b)); } \
  inline __half& operator op##=(__half& a, __half b) { return a = a op b; }
EDGE_OPERATOR(+)
EDGE_OPERATOR(-)
EDGE_OPERATOR(*)
EDGE_OPERATOR(/)
#undef EDGE_OPERATOR
#define EDGE_COMPARISON(op, name)                                                                              \
  inline bool operator op(__half a, __half b) { return static_cast<float>(a) op static_cast<float>(b); }       \
  inline bool name(__half a, __half b) { return a op b; }
EDGE_COMPARISON(==, __heq)
EDGE_COMPARISON(!=, __hne)
EDGE_COMPARISON(<, __hlt)
EDGE_COMPARISON(<=, __hle)
EDGE_COMPARISON(>, __hgt)
EDGE_COMPARISON(>=, __hge)
#undef EDGE_COMPARISON
inline __half operator-(__half a) {
  a.bits ^= 0x8000;
  return a;
}
inline __half operator+(__half a) { return a; }

inline __half __float2half(float a) { return __half(a); }
inline __half __float2half_rn(float a) { return __half(a); }
inline __half __double2half(double a) { return __half(a); }
inline __half __int2half_rn(int a) { return __half(static_cast<double>(a)); }
inline float __half2float(__half a) { return a; }
inline int __half2int_rz(__half a) { return static_cast<int>(static_cast<float>(a)); }
inline int __half2int_rn(__half a) { return static_cast<int>(rintf(a)); }
inline __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
inline unsigned short __half_as_ushort(__half a) { return a.bits; }
inline __half __short_as_half(short bits) { return __ushort_as_half(static_cast<unsigned short>(bits)); }
inline short __half_as_short(__half a) { return static_cast<short>(a.bits); }
inline __half __hadd(__half a, __half b) { return a + b; }
inline __half __hsub(__half a, __half b) { return a - b; }
inline __half __hmul(__half a, __half b) { return a * b; }
inline __half __hdiv(__half a, __half b) { return a / b; }
inline __half __hneg(__half a) { return -a; }
inline __half __habs(__half a) { return __ushort_as_half(a.bits & 0x7FFF); }
inline bool __hisnan(__half a) { return a != a; }
inline __half __hmax(__half a, __half b) { return __half(fmaxf(a, b)); }
inline __half __hmin(__half a, __half b) { return __half(fminf(a, b)); }
inline __half __hfma(__half a, __half b, __half c) {
  // The product is exact. The sum may not be: it is rounded to odd, so that the rounding to half is the only one.
  const double product = static_cast<double>(static_cast<float>(a)) * static_cast<float>(b);
  const double other = static_cast<float>(c), sum = product + other;
  const double part = sum - product, lost = (product - (sum - part)) + (other - part);
  auto bits = edge::Bits<uint64_t>(sum);
  if (lost != 0 && lost == lost && !(bits & 1)) bits += (lost > 0) == (sum > 0) ? 1 : -1;
  return __half(edge::Bits<double>(bits));
}

#define EDGE_FUNCTION(name, function) \
  inline __half name(__half a) { return __half(function(static_cast<float>(a))); }
EDGE_FUNCTION(hexp, expf)
EDGE_FUNCTION(hexp2, exp2f)
EDGE_FUNCTION(hlog, logf)
EDGE_FUNCTION(hlog2, log2f)
EDGE_FUNCTION(hlog10, log10f)
EDGE_FUNCTION(hsqrt, sqrtf)
EDGE_FUNCTION(hsin, sinf)
EDGE_FUNCTION(hcos, cosf)
EDGE_FUNCTION(htan, tanf)
EDGE_FUNCTION(htanh, tanhf)
EDGE_FUNCTION(hatan, atanf)
EDGE_FUNCTION(herf, erff)
EDGE_FUNCTION(hfloor, floorf)
EDGE_FUNCTION(hceil, ceilf)
EDGE_FUNCTION(hrint, rintf)
EDGE_FUNCTION(htrunc, truncf)
EDGE_FUNCTION(hrcp, 1.0f /)
EDGE_FUNCTION(hrsqrt, 1.0 / sqrtf)
#undef EDGE_FUNCTION
inline __half hpow(__half a, __half b) { return __half(powf(a, b)); }

struct __align__(4) __half2 {
  __half x, y;
  __half2(__half x, __half y) : x(x), y(y) {}
  EDGE_WHOLE(__half2, 4)
};
using half2 = __half2;
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 __float2half2_rn(float a) { return {__half(a), __half(a)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 a) { return {__half(a.x), __half(a.y)}; }
inline float2 __half22float2(__half2 a) { return {a.x, a.y}; }
inline __half __low2half(__half2 a) { return a.x; }
inline __half __high2half(__half2 a) { return a.y; }
inline float __low2float(__half2 a) { return a.x; }
inline float __high2float(__half2 a) { return a.y; }
#define EDGE_PAIR(op, name)                                                           \
  inline __half2 operator op(__half2 a, __half2 b) { return {a.x op b.x, a.y op b.y}; } \
  inline __half2 name(__half2 a, __half2 b) { return a op b; }
EDGE_PAIR(+, __hadd2)
EDGE_PAIR(-, __hsub2)
EDGE_PAIR(*, __hmul2)
EDGE_PAIR(/, __h2div)
#undef EDGE_PAIR
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
inline __half2 __hmin2(__half2 a, __half2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
