// SHA-256 (FIPS 180-4), by which files are told from each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace edge {

class Sha256 {
 public:
  void Add(const void* data, size_t size);
  // 64 hexadecimal digits; nothing can be added afterwards.
  std::string Digest();

 private:
  void Block(const uint8_t* bytes);

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block_[64] = {};
  uint64_t bytes_ = 0;
};

}  // namespace edge
