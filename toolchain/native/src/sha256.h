// SHA-256, by libsodium.
#pragma once

#include <sodium/crypto_hash_sha256.h>

#include <cstddef>
#include <string>

namespace edge {

class Sha256 {
 public:
  Sha256();
  void Add(const void* data, size_t size);
  // 64 hexadecimal digits; nothing can be added afterwards.
  std::string Digest();

 private:
  crypto_hash_sha256_state state_;
};

}  // namespace edge
