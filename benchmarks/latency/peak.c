// Prints three numbers: the GFLOP/s of one core in float32 fused multiply-adds that never leave the
// registers, in the best of several tries and in the middle one, and the GB/s at which it reads memory that
// no cache holds, at best.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Chains hide a latency of 5 cycles on two units, and leave registers for the factors.
#if defined(__AVX512F__)
#define BYTES 64
#define CHAINS 24
#elif defined(__AVX__)
#define BYTES 32
#define CHAINS 12
#else
#define BYTES 16
#define CHAINS 12
#endif
#define LANES (BYTES / 4)
#define STEPS 4000000
#define TRIES 40

typedef float Vector __attribute__((vector_size(BYTES)));

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static int ByValue(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

int main(void) {
  volatile float seed = 1e-9f;
  double computing[TRIES], read = 1e9;
  float sink = 0;
  for (int try = 0; try < TRIES; ++try) {
    Vector sums[CHAINS], factor, addend;
    for (int lane = 0; lane < LANES; ++lane) factor[lane] = seed, addend[lane] = seed * lane;
    for (int chain = 0; chain < CHAINS; ++chain) sums[chain] = addend;
    const double begun = Now();
    for (int step = 0; step < STEPS; ++step) {
#pragma clang loop unroll(full)
      for (int chain = 0; chain < CHAINS; ++chain) sums[chain] = sums[chain] * factor + addend;
    }
    computing[try] = Now() - begun;
    for (int chain = 0; chain < CHAINS; ++chain) sink += sums[chain][0];
  }
  const size_t count = (size_t)256 << 20 >> 2;
  float* memory = aligned_alloc(BYTES, count * sizeof(float));
  if (memory == NULL) return 1;
  for (size_t i = 0; i < count; ++i) memory[i] = seed;
  for (int try = 0; try < TRIES; ++try) {
    const Vector* vectors = (const Vector*)memory;
    Vector sums[8] = {{0}};
    const double begun = Now();
    for (size_t i = 0; i < count / LANES; i += 8) {
#pragma clang loop unroll(full)
      for (int chain = 0; chain < 8; ++chain) sums[chain] += vectors[i + chain];
    }
    const double took = Now() - begun;
    if (took < read) read = took;
    for (int chain = 0; chain < 8; ++chain) sink += sums[chain][0];
  }
  volatile float kept = sink;
  (void)kept;
  qsort(computing, TRIES, sizeof(double), ByValue);
  const double billions = 2e-9 * STEPS * CHAINS * LANES;
  printf("%.1f %.1f %.2f\n", billions / computing[0], billions / computing[TRIES / 2],
         1e-9 * count * sizeof(float) / read);
  return 0;
}
