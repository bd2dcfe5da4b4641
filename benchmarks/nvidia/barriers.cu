// Kernels that do nothing, and that pass barriers of the whole grid: what a launch costs beside a barrier.

#ifdef EDGE_EMULATED_CUDA  // one thread at a time, block after block: no order but that of the text
inline unsigned arrive(unsigned* counter, unsigned by) { return atomicAdd(counter, by); }
inline unsigned value_of(unsigned* counter) { return *counter; }
#else
__device__ __forceinline__ unsigned arrive(unsigned* counter, unsigned by) {
  unsigned before;
  asm volatile("atom.release.gpu.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(by) : "memory");
  return before;
}
__device__ __forceinline__ unsigned value_of(unsigned* counter) {
  unsigned value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
#endif

// Each barrier adds 2^31 to the counter, the blocks together: its highest bit changes when the last one arrives.
// So nothing is reset, neither between barriers nor between launches.
__device__ __forceinline__ void barrier(unsigned* counter) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned by = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
    const unsigned before = arrive(counter, by);
    while (((before ^ value_of(counter)) & 0x80000000u) == 0) {
    }
  }
  __syncthreads();
}

extern "C" __global__ void empty() {}

extern "C" __global__ void barriers(unsigned* counter, unsigned count) {
  for (unsigned i = 0; i < count; ++i) barrier(counter);
}

// Counts in `early` the blocks that a barrier let on before they could see what the next block wrote before it.
// `stamps` has two words for each block: one is read while the other is written.
extern "C" __global__ void checked(unsigned* counter, unsigned count, unsigned* stamps, unsigned* early) {
  const bool last = threadIdx.x == blockDim.x - 1;
  for (unsigned i = 1; i <= count; ++i) {
    unsigned* now = stamps + i % 2 * gridDim.x;
    if (last) now[blockIdx.x] = i;
    barrier(counter);
    if (last && now[(blockIdx.x + 1) % gridDim.x] != i) atomicAdd(early, 1u);
  }
}
