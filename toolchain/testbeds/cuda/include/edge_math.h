// Functions of CUDA that C's library does not have. Those that are approximate on a GPU are exact here.
#pragma once

#define EDGE_FLOAT(name) \
  inline float name(float a) { return name##f(a); }
EDGE_FLOAT(exp)
EDGE_FLOAT(exp2)
EDGE_FLOAT(expm1)
EDGE_FLOAT(log)
EDGE_FLOAT(log2)
EDGE_FLOAT(log10)
EDGE_FLOAT(log1p)
EDGE_FLOAT(sqrt)
EDGE_FLOAT(cbrt)
EDGE_FLOAT(sin)
EDGE_FLOAT(cos)
EDGE_FLOAT(tan)
EDGE_FLOAT(asin)
EDGE_FLOAT(acos)
EDGE_FLOAT(atan)
EDGE_FLOAT(sinh)
EDGE_FLOAT(cosh)
EDGE_FLOAT(tanh)
EDGE_FLOAT(asinh)
EDGE_FLOAT(acosh)
EDGE_FLOAT(atanh)
EDGE_FLOAT(erf)
EDGE_FLOAT(floor)
EDGE_FLOAT(ceil)
EDGE_FLOAT(trunc)
EDGE_FLOAT(round)
EDGE_FLOAT(rint)
EDGE_FLOAT(nearbyint)
EDGE_FLOAT(fabs)
#undef EDGE_FLOAT
inline float pow(float a, float b) { return powf(a, b); }
inline float fmod(float a, float b) { return fmodf(a, b); }
inline float atan2(float a, float b) { return atan2f(a, b); }
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline float rsqrtf(float a) { return static_cast<float>(1.0 / ::sqrt(static_cast<double>(a))); }
inline float rsqrt(float a) { return rsqrtf(a); }
inline double rsqrt(double a) { return 1.0 / ::sqrt(a); }
inline float exp10(float a) { return exp10f(a); }

#define EDGE_EXTREMES(type)                                      \
  inline type max(type a, type b) { return a > b ? a : b; }      \
  inline type min(type a, type b) { return a < b ? a : b; }
EDGE_EXTREMES(int)
EDGE_EXTREMES(unsigned)
EDGE_EXTREMES(long)
EDGE_EXTREMES(unsigned long)
EDGE_EXTREMES(long long)
EDGE_EXTREMES(unsigned long long)
#undef EDGE_EXTREMES
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
extern "C" int abs(int) noexcept;
inline long long abs(long long a) { return a < 0 ? -a : a; }
inline long abs(long a) { return a < 0 ? -a : a; }
inline float abs(float a) { return fabsf(a); }
inline double abs(double a) { return ::fabs(a); }

inline float __expf(float a) { return expf(a); }
inline float __exp10f(float a) { return exp10f(a); }
inline float __logf(float a) { return logf(a); }
inline float __log2f(float a) { return log2f(a); }
inline float __log10f(float a) { return log10f(a); }
inline float __sinf(float a) { return sinf(a); }
inline float __cosf(float a) { return cosf(a); }
inline float __tanf(float a) { return tanf(a); }
inline float __tanhf(float a) { return tanhf(a); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __fdividef(float a, float b) { return a / b; }
inline float fdividef(float a, float b) { return a / b; }
inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frsqrt_rn(float a) { return rsqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }

inline float __int_as_float(int a) { return edge::Bits<float>(a); }
inline float __uint_as_float(unsigned a) { return edge::Bits<float>(a); }
inline int __float_as_int(float a) { return edge::Bits<int>(a); }
inline unsigned __float_as_uint(float a) { return edge::Bits<unsigned>(a); }
inline double __longlong_as_double(long long a) { return edge::Bits<double>(a); }
inline long long __double_as_longlong(double a) { return edge::Bits<long long>(a); }

namespace edge {
// As the GPU converts: NaN becomes 0, and what is too large the largest (PTX ISA, "cvt").
template <class To, class From>
inline To Saturated(From a) {
  constexpr To kMost = static_cast<To>(static_cast<To>(-1) < 0 ? ~0ull >> (65 - 8 * sizeof(To)) : ~0ull >> (64 - 8 * sizeof(To)));
  constexpr To kLeast = static_cast<To>(static_cast<To>(-1) < 0 ? -kMost - 1 : 0);
  if (!(a == a)) return 0;
  if (a >= static_cast<double>(kMost)) return kMost;
  if (a <= static_cast<double>(kLeast)) return kLeast;
  return static_cast<To>(a);
}
}  // namespace edge
#define EDGE_CONVERSIONS(from, to, type)                                                            \
  inline type __##from##2##to##_rn(from a) { return edge::Saturated<type>(rint(a)); }               \
  inline type __##from##2##to##_rz(from a) { return edge::Saturated<type>(trunc(a)); }              \
  inline type __##from##2##to##_rd(from a) { return edge::Saturated<type>(floor(a)); }              \
  inline type __##from##2##to##_ru(from a) { return edge::Saturated<type>(ceil(a)); }
EDGE_CONVERSIONS(float, int, int)
EDGE_CONVERSIONS(float, uint, unsigned)
EDGE_CONVERSIONS(float, ll, long long)
EDGE_CONVERSIONS(double, int, int)
EDGE_CONVERSIONS(double, ll, long long)
#undef EDGE_CONVERSIONS
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
inline float __ll2float_rn(long long a) { return static_cast<float>(a); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }

inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(int a) { return a ? __builtin_clz(static_cast<unsigned>(a)) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll(static_cast<unsigned long long>(a)) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline unsigned __brev(unsigned a) { return __builtin_bitreverse32(a); }
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<signed char>(a >> i) * static_cast<signed char>(b >> i);
  return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 0xFF) * (b >> i & 0xFF);
  return sum;
}

template <class T>
inline T __ldg(const T* at) {
  return *at;
}
template <class T>
inline T __ldcg(const T* at) {
  return *at;
}
template <class T>
inline void __stcg(T* at, T value) {
  *at = value;
}
