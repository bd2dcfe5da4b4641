#include "sha256.h"

#include <string_view>

namespace edge {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

Sha256::Sha256() { crypto_hash_sha256_init(&state_); }

void Sha256::Add(const void* data, size_t size) {
  crypto_hash_sha256_update(&state_, static_cast<const unsigned char*>(data), size);
}

std::string Sha256::Digest() {
  unsigned char digest[crypto_hash_sha256_BYTES];
  crypto_hash_sha256_final(&state_, digest);
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace edge
