// The functions of toolchain/lowering/dialects/warp.cuh, which describes them, as loops. The layouts are those there.
#pragma once

inline float edge_tf32(float value) {
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7F800000) == 0x7F800000) return value;
  return __uint_as_float((bits + 0x1000) & 0xFFFFE000);
}

namespace edge {

// Products and sums of d (16 x 8) += a (16 x kDepth) * b (kDepth x 8). `Element` finds the element of a piece that a
// lane has handed over.
template <int kDepth, class Piece, class Left, class Right>
EDGE_UNCHECKED inline void MultiplyAdd(const char* what, int line, float* d, const Piece& mine, Left left, Right right) {
  const char* slots = services->gather(~0u, &mine, sizeof(Piece), what, line);
  const int g = LaneOfThread() / 4, t = LaneOfThread() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, column = 2 * t + i % 2;
    float sum = d[i];
    for (int k = 0; k < kDepth; ++k) sum += left(slots, row, k) * right(slots, k, column);
    d[i] = sum;
  }
}

template <class Piece>
EDGE_UNCHECKED inline const Piece& PieceOf(const char* slots, int lane) {
  return *reinterpret_cast<const Piece*>(slots + lane * kSlotBytes);
}

// What tensor cores see of a float: its bits below those of tf32 are ignored.
EDGE_UNCHECKED inline float Tf32Bits(float value) { return Bits<float>(Bits<unsigned>(value) & 0xFFFFE000); }

struct Tf32Piece {
  float a[4], b[2];
};
struct HalfPiece {
  unsigned a[4], b[2];
};

EDGE_UNCHECKED inline float HalfOf(unsigned word, int which) {
  return FloatOfHalf(static_cast<unsigned short>(word >> 16 * which));
}

}  // namespace edge

EDGE_UNCHECKED inline void edge_mma_m16n8k8_tf32(float* d, const float* a, const float* b,
                                                 int line = __builtin_LINE()) {
  using edge::PieceOf, edge::Tf32Bits, edge::Tf32Piece;
  const Tf32Piece mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  edge::MultiplyAdd<8>(
      "edge_mma_m16n8k8_tf32", line, d, mine,
      [](const char* slots, int row, int k) __attribute__((no_sanitize("all"))) {
        return Tf32Bits(PieceOf<Tf32Piece>(slots, row % 8 * 4 + k % 4).a[row / 8 + k / 4 * 2]);
      },
      [](const char* slots, int k, int column) __attribute__((no_sanitize("all"))) {
        return Tf32Bits(PieceOf<Tf32Piece>(slots, column * 4 + k % 4).b[k / 4]);
      });
}

EDGE_UNCHECKED inline void edge_mma_m16n8k16_f16_words(float* d, const unsigned* a, const unsigned* b,
                                                       int line = __builtin_LINE()) {
  using edge::HalfOf, edge::HalfPiece, edge::PieceOf;
  const HalfPiece mine{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  edge::MultiplyAdd<16>(
      "edge_mma_m16n8k16_f16", line, d, mine,
      [](const char* slots, int row, int k) __attribute__((no_sanitize("all"))) {
        return HalfOf(PieceOf<HalfPiece>(slots, row % 8 * 4 + k % 8 / 2).a[row / 8 + k / 8 * 2], k % 2);
      },
      [](const char* slots, int k, int column) __attribute__((no_sanitize("all"))) {
        return HalfOf(PieceOf<HalfPiece>(slots, column * 4 + k % 8 / 2).b[k / 8], k % 2);
      });
}

EDGE_UNCHECKED inline void edge_mma_m16n8k16_f16_bits(float* d, const float* a, const float* b,
                                                      int line = __builtin_LINE()) {
  unsigned words[6];
  memcpy(words, a, 16);
  memcpy(words + 4, b, 8);
  edge_mma_m16n8k16_f16_words(d, words, words + 4, line);
}

EDGE_UNCHECKED inline void edge_mma_m16n8k16_f16(float* d, const __half* a, const __half* b,
                                                 int line = __builtin_LINE()) {
  unsigned words[6];
  memcpy(words, a, 16);
  memcpy(words + 4, b, 8);
  edge_mma_m16n8k16_f16_words(d, words, words + 4, line);
}

namespace edge {
EDGE_UNCHECKED inline void CopyAsync(void* to, const void* from, unsigned bytes, unsigned zeros) {
  services->copy_async(to, from, bytes, zeros);
}
}  // namespace edge
inline void edge_cp_async_16(void* to, const void* from) { edge::CopyAsync(to, from, 16, 0); }
inline void edge_cp_async_8(void* to, const void* from) { edge::CopyAsync(to, from, 8, 0); }
inline void edge_cp_async_4(void* to, const void* from) { edge::CopyAsync(to, from, 4, 0); }
inline void edge_cp_async_16_or_zeros(void* to, const void* from, unsigned bytes) {
  edge::CopyAsync(to, from, bytes, 16 - bytes);
}
inline void edge_cp_async_8_or_zeros(void* to, const void* from, unsigned bytes) {
  edge::CopyAsync(to, from, bytes, 8 - bytes);
}
inline void edge_cp_async_4_or_zeros(void* to, const void* from, unsigned bytes) {
  edge::CopyAsync(to, from, bytes, 4 - bytes);
}
EDGE_UNCHECKED inline void edge_cp_async_commit() { edge::services->commit_async(); }
EDGE_UNCHECKED inline void edge_cp_async_wait(unsigned left) { edge::services->wait_async(left); }

namespace edge {
EDGE_UNCHECKED inline void LoadMatrices(const char* what, int line, unsigned* word, const void* row, bool transposed) {
  if (reinterpret_cast<size_t>(row) % 16) services->fail(kMisaligned, "a row of ldmatrix is not aligned to 16 bytes");
  const char* slots = services->gather(~0u, &row, sizeof(row), what, line);
  const int g = LaneOfThread() / 4, t = LaneOfThread() % 4;
  for (int m = 0; m < 4; ++m) {
    unsigned result = 0;
    for (int j = 0; j < 2; ++j) {
      const int at_row = transposed ? 2 * t + j : g, column = transposed ? g : 2 * t + j;
      const auto* element = PieceOf<const unsigned short*>(slots, 8 * m + at_row) + column;
      services->access(element, sizeof(*element), false, false);
      result |= static_cast<unsigned>(*element) << 16 * j;
    }
    word[m] = result;
  }
}
}  // namespace edge
EDGE_UNCHECKED inline void edge_ldmatrix_x4(unsigned* word, const void* row, int line = __builtin_LINE()) {
  edge::LoadMatrices("edge_ldmatrix_x4", line, word, row, false);
}
EDGE_UNCHECKED inline void edge_ldmatrix_x4_transposed(unsigned* word, const void* row, int line = __builtin_LINE()) {
  edge::LoadMatrices("edge_ldmatrix_x4_transposed", line, word, row, true);
}

template <class T>
EDGE_UNCHECKED inline T edge_shuffle_xor(T value, int mask, int line = __builtin_LINE()) {
  return edge::Shuffle<edge::Xor>("edge_shuffle_xor", line, 0xFFFFFFFFu, value, mask);
}

// The driver runs one block after the other, and switches threads at barriers alone.
namespace edge {
static unsigned arrived[4096];
static int last_to_arrive;
}  // namespace edge
EDGE_UNCHECKED static inline int edge_last_to_arrive(int number, int groups) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    edge::services->arrive(&edge::arrived[number]);
    edge::last_to_arrive = ++edge::arrived[number] == static_cast<unsigned>(groups);
    if (edge::last_to_arrive) edge::arrived[number] = 0;
  }
  __syncthreads();
  return edge::last_to_arrive;
}
