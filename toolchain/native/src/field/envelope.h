// DSSE envelopes: signatures over exact bytes, which nobody parses before enough keys have signed them.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace edge::field {

constexpr size_t kMostEnvelope = 262144;  // bytes
constexpr size_t kMostSignatures = 16;
constexpr std::string_view kTrustType = "application/vnd.edge-toolchain.trust+json";
constexpr std::string_view kReleaseType = "application/vnd.in-toto+json";

using Key = std::array<uint8_t, 32>;

// Keys, and how many of them must have signed.
struct Role {
  std::set<Key> keys;
  int64_t threshold = 0;
};

// An envelope taken apart. Nothing is known yet of who signed it.
struct Envelope {
  std::string type;
  std::string payload;
  std::vector<std::string> signatures;  // 64 bytes each
};

// Throws EDGE_REFUSED, "envelope".
Envelope ReadEnvelope(std::string_view bytes);

// How many of these keys signed the envelope. Each counts once, however often and under whatever id it signed.
int64_t CountSigners(const Envelope& envelope, const std::set<Key>& keys);

// Throws EDGE_REFUSED: "envelope" for a payload of another type, "signature" if no key of the role signed it,
// "threshold" if too few did. `what` begins the message: "the release".
void RequireSigned(const Envelope& envelope, std::string_view type, const Role& role, const std::string& what);

}  // namespace edge::field
