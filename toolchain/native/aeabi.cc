// The run-time helper functions that LLVM calls on armv7, whose cores have no integer division.
// Names and meaning: Arm, "Run-time ABI for the Arm Architecture", section 4. Arguments and results
// are in core registers, under hard float too, and a pair of results in r0 to r3.
//
// Why not zig's compiler_rt: it is one object, so that one helper brings its own, slower memcpy
// and expf along, which then take the place of the C library's.
#include <cstdint>

#define AEABI extern "C" __attribute__((visibility("hidden"), pcs("aapcs")))

// What the processors' own instructions answer, where they have them: 0 for a division by 0.
static uint32_t Divide(uint32_t n, uint32_t d) {
  // Exact: two quotients differ by at least 2^-32 of their size, a double keeps 53 bits.
  return d == 0 ? 0 : (uint32_t)((double)n / (double)d);
}

static uint64_t DivideLong(uint64_t n, uint64_t d) {
  if (n >> 32 == 0 && d >> 32 == 0) return Divide((uint32_t)n, (uint32_t)d);
  if (d == 0 || n < d) return 0;
  int shift = __builtin_clzll(d) - __builtin_clzll(n);
  uint64_t quotient = 0;
  for (d <<= shift; shift >= 0; --shift, d >>= 1) {
    quotient <<= 1;
    if (n >= d) {
      n -= d;
      quotient |= 1;
    }
  }
  return quotient;
}

// The magnitude as unsigned: the smallest number has none that is signed.
static uint32_t Magnitude(int32_t value) { return value < 0 ? 0 - (uint32_t)value : (uint32_t)value; }
static uint64_t MagnitudeLong(int64_t value) {
  return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

AEABI uint32_t __aeabi_uidiv(uint32_t n, uint32_t d) { return Divide(n, d); }

AEABI int32_t __aeabi_idiv(int32_t n, int32_t d) {
  const uint32_t quotient = Divide(Magnitude(n), Magnitude(d));
  return (int32_t)((n ^ d) < 0 ? 0 - quotient : quotient);
}

// Quotient in r0, remainder in r1.
AEABI uint64_t __aeabi_uidivmod(uint32_t n, uint32_t d) {
  const uint32_t quotient = Divide(n, d);
  return (uint64_t)(n - quotient * d) << 32 | quotient;
}

AEABI uint64_t __aeabi_idivmod(int32_t n, int32_t d) {
  const uint32_t quotient = (uint32_t)__aeabi_idiv(n, d);
  return (uint64_t)((uint32_t)n - quotient * (uint32_t)d) << 32 | quotient;
}

// Quotient in r0 and r1, remainder in r2 and r3: where such a vector is returned.
using Pair = uint64_t __attribute__((vector_size(16)));

AEABI Pair __aeabi_uldivmod(uint64_t n, uint64_t d) {
  const uint64_t quotient = DivideLong(n, d);
  return Pair{quotient, n - quotient * d};
}

AEABI Pair __aeabi_ldivmod(int64_t n, int64_t d) {
  const uint64_t absolute = DivideLong(MagnitudeLong(n), MagnitudeLong(d));
  const uint64_t quotient = (n ^ d) < 0 ? 0 - absolute : absolute;
  return Pair{quotient, (uint64_t)n - quotient * (uint64_t)d};
}

// Both halves are exact, their sum is rounded once.
AEABI double __aeabi_ul2d(uint64_t value) {
  return (double)(uint32_t)(value >> 32) * 0x1p32 + (double)(uint32_t)value;
}

AEABI double __aeabi_l2d(int64_t value) {
  return (double)(int32_t)(value >> 32) * 0x1p32 + (double)(uint32_t)value;
}

AEABI float __aeabi_ul2f(uint64_t value) {
  // Rounded once, too: bits below the double's last become one that says whether any was set.
  if (value >> 53 != 0) value = (value >> 11 | ((value & 0x7ff) != 0)) << 11;
  return (float)__aeabi_ul2d(value);
}

AEABI float __aeabi_l2f(int64_t value) {
  const float absolute = __aeabi_ul2f(MagnitudeLong(value));
  return value < 0 ? -absolute : absolute;
}

// Towards zero; what does not fit becomes the nearest that does, and NaN 0.
AEABI uint64_t __aeabi_d2ulz(double value) {
  if (!(value > 0)) return 0;
  if (value >= 0x1p64) return UINT64_MAX;
  const uint32_t high = (uint32_t)(value * 0x1p-32);
  return (uint64_t)high << 32 | (uint32_t)(value - (double)high * 0x1p32);
}

AEABI int64_t __aeabi_d2lz(double value) {
  if (value >= 0x1p63) return INT64_MAX;
  if (value < -0x1p63) return INT64_MIN;
  return (int64_t)(value < 0 ? 0 - __aeabi_d2ulz(-value) : __aeabi_d2ulz(value));
}

AEABI uint64_t __aeabi_f2ulz(float value) { return __aeabi_d2ulz(value); }
AEABI int64_t __aeabi_f2lz(float value) { return __aeabi_d2lz(value); }

// Shifts by up to 63, which LLVM calls where code shall be small.
AEABI uint64_t __aeabi_llsl(uint64_t value, int32_t bits) {
  const uint32_t high = (uint32_t)(value >> 32), low = (uint32_t)value;
  if (bits >= 32) return (uint64_t)(low << (bits - 32)) << 32;
  return bits == 0 ? value : (uint64_t)(high << bits | low >> (32 - bits)) << 32 | low << bits;
}

AEABI uint64_t __aeabi_llsr(uint64_t value, int32_t bits) {
  const uint32_t high = (uint32_t)(value >> 32), low = (uint32_t)value;
  if (bits >= 32) return high >> (bits - 32);
  return bits == 0 ? value : (uint64_t)(high >> bits) << 32 | (high << (32 - bits) | low >> bits);
}

AEABI int64_t __aeabi_lasr(int64_t value, int32_t bits) {
  const int32_t high = (int32_t)(value >> 32);
  const uint32_t low = (uint32_t)value;
  if (bits == 0) return value;
  const uint32_t top = (uint32_t)(bits >= 32 ? high >> 31 : high >> bits);
  const uint32_t rest =
      bits >= 32 ? (uint32_t)(high >> (bits - 32)) : (uint32_t)high << (32 - bits) | low >> bits;
  return (int64_t)((uint64_t)top << 32 | rest);
}

AEABI uint64_t __aeabi_lmul(uint64_t a, uint64_t b) {
  const uint32_t cross = (uint32_t)(a >> 32) * (uint32_t)b + (uint32_t)a * (uint32_t)(b >> 32);
  return (uint64_t)(uint32_t)a * (uint32_t)b + ((uint64_t)cross << 32);
}
