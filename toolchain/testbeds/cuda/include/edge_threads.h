// What threads of a block do together.
#pragma once

#define __syncthreads() (edge::Barrier(__LINE__))
#define __syncwarp(...) (edge::WarpBarrier(__LINE__, ##__VA_ARGS__))
#define __activemask() (edge::Active())
#define __shfl_sync(...) (edge::Shuffle<edge::Lane>("__shfl_sync", __LINE__, __VA_ARGS__))
#define __shfl_up_sync(...) (edge::Shuffle<edge::Up>("__shfl_up_sync", __LINE__, __VA_ARGS__))
#define __shfl_down_sync(...) (edge::Shuffle<edge::Down>("__shfl_down_sync", __LINE__, __VA_ARGS__))
#define __shfl_xor_sync(...) (edge::Shuffle<edge::Xor>("__shfl_xor_sync", __LINE__, __VA_ARGS__))
#define __ballot_sync(mask, predicate) (edge::Ballot("__ballot_sync", __LINE__, mask, predicate))
#define __any_sync(mask, predicate) (edge::Ballot("__any_sync", __LINE__, mask, predicate) != 0)
#define __all_sync(mask, predicate) (edge::Ballot("__all_sync", __LINE__, mask, !(predicate)) == 0)

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
EDGE_UNCHECKED inline void __trap() { edge::services->fail(edge::kLaunchFailed, "the kernel calls __trap"); }

namespace edge {

constexpr unsigned kSlotBytes = 64;

EDGE_UNCHECKED inline void Barrier(int line) { services->barrier(line); }
EDGE_UNCHECKED inline void WarpBarrier(int line, unsigned mask = ~0u) { services->warp_barrier(mask, line); }
EDGE_UNCHECKED inline unsigned Active() { return services->active(); }
EDGE_UNCHECKED inline int LaneOfThread() {
  const Triple& at = now->thread;
  const Triple& size = now->block_size;
  return static_cast<int>((at.x + size.x * (at.y + size.y * at.z)) % 32);
}

// The lanes that a shuffle reads (CUDA C++ Programming Guide, "Warp Shuffle Functions"). Segments have `width` lanes.
struct Lane {
  static int From(int lane, int number, int width) { return lane / width * width + (number & (width - 1)); }
};
struct Up {
  static int From(int lane, int delta, int width) { return lane % width < delta ? lane : lane - delta; }
};
struct Down {
  static int From(int lane, int delta, int width) { return lane % width + delta >= width ? lane : lane + delta; }
};
struct Xor {
  static int From(int lane, int mask, int width) {
    const int from = lane ^ mask;
    return from / width > lane / width ? lane : from;
  }
};

template <class How, class T>
EDGE_UNCHECKED inline T Shuffle(const char* what, int line, unsigned mask, T value, int argument, int width = 32) {
  const int lane = LaneOfThread(), from = How::From(lane, argument, width);
  const char* slots = services->gather(mask, &value, sizeof(T), what, line);
  T result;
  // A lane outside of the mask hands nothing over: its value is undefined, which NaN is the closest to.
  if (mask >> from & 1) {
    memcpy(&result, slots + from * kSlotBytes, sizeof(T));
  } else {
    memset(&result, 0xFF, sizeof(T));
  }
  return result;
}

EDGE_UNCHECKED inline unsigned Ballot(const char* what, int line, unsigned mask, bool predicate) {
  const char* slots = services->gather(mask, &predicate, sizeof(bool), what, line);
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (mask >> i & 1) && slots[i * kSlotBytes] ? 1u << i : 0;
  return result;
}

// Fibers are switched at barriers alone, so what happens between is atomic.
template <class T, class Operation>
EDGE_UNCHECKED inline T Atomic(T* at, Operation operation) {
  services->access(at, sizeof(T), true, true);
  const T old = *at;
  *at = operation(old);
  return old;
}

}  // namespace edge

#define EDGE_ATOMIC(name, expression)                                                       \
  template <class T, class U>                                                               \
  EDGE_UNCHECKED inline T name(T* at, U handed) {                                           \
    const T value = static_cast<T>(handed);                                                 \
    return edge::Atomic(at, [=](T old) __attribute__((no_sanitize("all"))) -> T { return expression; }); \
  }
EDGE_ATOMIC(atomicAdd, old + value)
EDGE_ATOMIC(atomicSub, old - value)
EDGE_ATOMIC(atomicMax, old > value ? old : value)
EDGE_ATOMIC(atomicMin, old < value ? old : value)
EDGE_ATOMIC(atomicAnd, old & value)
EDGE_ATOMIC(atomicOr, old | value)
EDGE_ATOMIC(atomicXor, old ^ value)
EDGE_ATOMIC(atomicExch, ((void)old, value))
EDGE_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
#undef EDGE_ATOMIC
template <class T>
EDGE_UNCHECKED inline T atomicCAS(T* at, T expected, T value) {
  return edge::Atomic(at, [=](T old) __attribute__((no_sanitize("all"))) -> T { return old == expected ? value : old; });
}
