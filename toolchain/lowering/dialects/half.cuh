// What TVM's CUDA C++ calls for float16 and `cuda_fp16.h` lacks. Kernels that use float16 begin with this.
#include <cuda_fp16.h>

struct __align__(8) half4 {
  half x, y, z, w;
};

__device__ __forceinline__ half4 make_half4(half x, half y, half z, half w) {
  return half4{x, y, z, w};
}

__device__ __forceinline__ half max(half a, half b) { return __hgt(a, b) ? a : b; }
__device__ __forceinline__ half min(half a, half b) { return __hlt(a, b) ? a : b; }

#ifndef EDGE_EMULATED_CUDA  // whose cuda_fp16.h has them
__device__ __forceinline__ half hpow(half a, half b) { return __float2half_rn(powf(__half2float(a), __half2float(b))); }
__device__ __forceinline__ half htan(half a) { return __float2half_rn(tanf(__half2float(a))); }
__device__ __forceinline__ half hatan(half a) { return __float2half_rn(atanf(__half2float(a))); }
__device__ __forceinline__ half herf(half a) { return __float2half_rn(erff(__half2float(a))); }
#endif
