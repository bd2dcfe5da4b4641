// Instructions of NVIDIA's GPUs that CUDA C++ has no word for. Kernels that call a function edge_... begin with this.
//
// Tensor cores: d += a * b, where 32 threads of a warp hold pieces of the matrices. With g = lane / 4, t = lane % 4
// (PTX ISA, "Matrix fragments for mma.m16n8k8" and "... for mma.m16n8k16"):
//
//   a of 16 x 8 tf32:   a[0] (g, t)  a[1] (g + 8, t)  a[2] (g, t + 4)  a[3] (g + 8, t + 4)
//   b of 8 x 8 tf32:    b[0] (t, g)  b[1] (t + 4, g)
//   a of 16 x 16 half:  a[0], a[1] (g, 2t + 0, 1)      a[2], a[3] (g + 8, 2t + 0, 1)
//                       a[4], a[5] (g, 2t + 8, 9)      a[6], a[7] (g + 8, 2t + 8, 9)
//   b of 16 x 8 half:   b[0], b[1] (2t + 0, 1, g)      b[2], b[3] (2t + 8, 9, g)
//   d of 16 x 8 float:  d[0], d[1] (g, 2t + 0, 1)      d[2], d[3] (g + 8, 2t + 0, 1)
//
// The emulated driver has its own form of each (toolchain/testbeds/cuda/include/edge_warp.h).
#ifndef EDGE_EMULATED_CUDA

// Rounds to tf32, ties away from zero. Tensor cores ignore the bits that it clears.
__device__ __forceinline__ float edge_tf32(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return __uint_as_float(bits);
}

__device__ __forceinline__ void edge_mma_m16n8k8_tf32(float* d, const float* a, const float* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// Sixteen bytes to shared memory, without a register between; both addresses are multiples of 16.
__device__ __forceinline__ void edge_cp_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
}
__device__ __forceinline__ void edge_cp_async_8(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
}
__device__ __forceinline__ void edge_cp_async_4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from)
               : "memory");
}
// The same, but only the first `bytes` bytes are read; zeros follow. With 0 the address is not looked at.
__device__ __forceinline__ void edge_cp_async_16_or_zeros(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void edge_cp_async_8_or_zeros(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void edge_cp_async_4_or_zeros(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
               "l"(from), "r"(bytes)
               : "memory");
}
// Ends a group of copies.
__device__ __forceinline__ void edge_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for this thread's groups but the newest `left`, a literal. Other threads see the copies behind a barrier.
#define edge_cp_async_wait(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

// Four matrices of 8 x 8 halves from shared memory: lane i has the address of row i % 8 of matrix i / 8, a multiple of
// 16; word[m] is elements (g, 2t + 0, 1) of matrix m.
__device__ __forceinline__ void edge_ldmatrix_x4(unsigned* word, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
}
// The same, of the transposed matrices: word[m] is elements (2t + 0, 1, g).
__device__ __forceinline__ void edge_ldmatrix_x4_transposed(unsigned* word, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "r"((unsigned)__cvta_generic_to_shared(row))
               : "memory");
}

// a and b as words of two halves each, the first in the lower bits.
__device__ __forceinline__ void edge_mma_m16n8k16_f16_words(float* d, const unsigned* a, const unsigned* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// The same, of words in the place of which floats have the same bits.
__device__ __forceinline__ void edge_mma_m16n8k16_f16_bits(float* d, const float* a, const float* b) {
  unsigned words[6];
  for (int i = 0; i < 6; ++i) words[i] = __float_as_uint(i < 4 ? a[i] : b[i - 4]);
  edge_mma_m16n8k16_f16_words(d, words, words + 4);
}
#ifdef __CUDA_FP16_TYPES_EXIST__
__device__ __forceinline__ void edge_mma_m16n8k16_f16(float* d, const __half* a, const __half* b) {
  unsigned words[6];
  for (int i = 0; i < 6; ++i) {
    const __half* pair = i < 4 ? a + 2 * i : b + 2 * (i - 4);
    words[i] = __half_as_ushort(pair[0]) | (unsigned)__half_as_ushort(pair[1]) << 16;
  }
  edge_mma_m16n8k16_f16_words(d, words, words + 4);
}
#endif

// The value of the thread of the warp whose lane differs in the bits of `mask`. All threads of the warp call it.
template <class T>
__device__ __forceinline__ T edge_shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, mask);
}

// Counters of thread blocks that share a result; each is 0 when a kernel begins and when it ends.
__device__ unsigned edge_arrived[4096];
// Whether all other of `groups` blocks that call this with the same `number` have called it before. What each stored
// before the call, those that it returns 1 to see.
__device__ __forceinline__ int edge_last_to_arrive(int number, int groups) {
  __shared__ int last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&edge_arrived[number], 1u) + 1 == (unsigned)groups;
    if (last) edge_arrived[number] = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

#endif
