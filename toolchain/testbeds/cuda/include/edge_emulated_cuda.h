// Makes the text of CUDA kernels C++ that the emulated driver runs on a CPU. It is included before the text.
//
// Kernels are compiled with clang's `-fsanitize=thread,array-bounds,alignment,integer-divide-by-zero` and without
// clang's runtime: what the compiler inserts calls the functions of edge_checks.h here.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "edge_kernel_abi.h"

#define EDGE_EMULATED_CUDA 1
#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define alignas(bytes) __attribute__((aligned(bytes)))  // CUDA's compiler takes it behind __shared__, too
// EDGE_SHARED is another section for each kernel: the driver learns from it what shared memory a kernel has.
#define __shared__ static __attribute__((section(EDGE_SHARED)))
#define EDGE_SHARED "edge_shared"

#define EDGE_UNCHECKED __attribute__((no_sanitize("all")))

namespace edge {

inline const Services* services;
inline Now* now;

// `const`: the compiler may ask once, since a call of a kernel is one thread.
#define EDGE_INDEX(name, member) \
  __attribute__((const, noinline, no_sanitize("all"))) inline Triple name() { return now->member; }
EDGE_INDEX(Thread, thread)
EDGE_INDEX(Block, block)
EDGE_INDEX(BlockSize, block_size)
EDGE_INDEX(GridSize, grid_size)
#undef EDGE_INDEX

}  // namespace edge

struct dim3 : edge::Triple {
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : Triple{x, y, z} {}
};
using uint3 = edge::Triple;
#define threadIdx (edge::Thread())
#define blockIdx (edge::Block())
#define blockDim (edge::BlockSize())
#define gridDim (edge::GridSize())
constexpr int warpSize = 32;

#include "edge_checks.h"
#include "edge_vectors.h"
#include "edge_half.h"
#include "edge_math.h"
#include "edge_threads.h"
#include "edge_warp.h"
#include "edge_entry.h"
