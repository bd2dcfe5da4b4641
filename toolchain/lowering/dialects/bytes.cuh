// Four 8-bit integers are one `int` or `unsigned` to TVM's generator of CUDA C++, which makes it of its lanes by these names.
__device__ __forceinline__ unsigned make_uint(unsigned char x, unsigned char y, unsigned char z, unsigned char w) {
  return x | y << 8 | z << 16 | static_cast<unsigned>(w) << 24;
}

__device__ __forceinline__ int make_int(signed char x, signed char y, signed char z, signed char w) {
  return static_cast<int>(make_uint(x, y, z, w));
}
