// Vector types of CUDA, with its alignments (CUDA C++ Programming Guide, "Built-in Vector Types").
#pragma once

// A vector is read and written whole: by then its address must be aligned, which clang checks of a type that is no
// struct.
#define EDGE_WHOLE(name, bytes)                                                                    \
  name() = default;                                                                                \
  name(const name& other) { *this = other; }                                                       \
  name& operator=(const name& other) {                                                             \
    typedef unsigned char Whole __attribute__((vector_size(bytes), aligned(bytes)));               \
    *reinterpret_cast<Whole*>(this) = *reinterpret_cast<const Whole*>(&other);                     \
    return *this;                                                                                  \
  }
#define EDGE_VECTORS(type, name, bytes2, bytes4)                                                   \
  struct name##1 { type x; };                                                                      \
  struct __align__(bytes2) name##2 {                                                               \
    type x, y;                                                                                     \
    name##2(type x, type y) : x(x), y(y) {}                                                        \
    EDGE_WHOLE(name##2, bytes2)                                                                    \
  };                                                                                               \
  struct __align__(bytes4) name##4 {                                                               \
    type x, y, z, w;                                                                               \
    name##4(type x, type y, type z, type w) : x(x), y(y), z(z), w(w) {}                            \
    EDGE_WHOLE(name##4, bytes4)                                                                    \
  };                                                                                               \
  inline name##1 make_##name##1(type x) { return {x}; }                                            \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                 \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define EDGE_THREE(type, name)                                                                     \
  struct name##3 { type x, y, z; };                                                                \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }
EDGE_VECTORS(signed char, char, 2, 4)
EDGE_VECTORS(unsigned char, uchar, 2, 4)
EDGE_VECTORS(short, short, 4, 8)
EDGE_VECTORS(unsigned short, ushort, 4, 8)
EDGE_VECTORS(int, int, 8, 16)
EDGE_VECTORS(unsigned, uint, 8, 16)
EDGE_VECTORS(float, float, 8, 16)
EDGE_THREE(signed char, char)
EDGE_THREE(unsigned char, uchar)
EDGE_THREE(short, short)
EDGE_THREE(unsigned short, ushort)
EDGE_THREE(int, int)
EDGE_THREE(float, float)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
#undef EDGE_VECTORS
#undef EDGE_THREE

#define EDGE_PAIRS(type, name)                                                                     \
  struct name##1 { type x; };                                                                      \
  struct __align__(16) name##2 {                                                                   \
    type x, y;                                                                                     \
    name##2(type x, type y) : x(x), y(y) {}                                                        \
    EDGE_WHOLE(name##2, 16)                                                                        \
  };                                                                                               \
  struct __align__(16) name##4 { type x, y, z, w; };                                               \
  inline name##1 make_##name##1(type x) { return {x}; }                                            \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                 \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
EDGE_PAIRS(long long, longlong)
EDGE_PAIRS(unsigned long long, ulonglong)
EDGE_PAIRS(double, double)
#undef EDGE_PAIRS

// What `extern __shared__ T name[];` becomes: memory whose size the launch says.
namespace edge {
template <class T>
struct DynamicShared {
  EDGE_UNCHECKED static T* At() { return reinterpret_cast<T*>(now->dynamic_shared); }
  constexpr operator T*() const { return At(); }
  template <class Other>
  explicit operator Other*() const {
    return reinterpret_cast<Other*>(At());
  }
};
}  // namespace edge
