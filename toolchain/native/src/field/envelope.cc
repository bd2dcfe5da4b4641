#include "field/envelope.h"

#include <algorithm>

#include "edge_rt.h"
#include "failure.h"
#include "field/base64.h"
#include "json.h"
#include "sodium.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr size_t kSignature = 64;  // bytes
constexpr size_t kMostId = 256;

const unsigned char* Unsigned(const std::string& bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }

std::string Decoded(const Node& node, size_t most) {
  std::optional<std::string> bytes = FromBase64(node.Text(most, 0));
  if (!bytes) node.Refuse("must be base64 with padding");
  return *std::move(bytes);
}

}  // namespace

Envelope ReadEnvelope(std::string_view bytes) {
  const Json json = ReadJson(bytes, "envelope");
  const Node node(json, "envelope");
  node.Exactly("payloadType payload signatures");
  Envelope envelope{node["payloadType"].Text(kMostId), Decoded(node["payload"], kMostEnvelope), {}};
  for (const Node& each : node["signatures"].List(0, kMostSignatures)) {
    each.Exactly("keyid sig");
    each["keyid"].Text(kMostId, 0);  // whose it is the signature itself shows
    envelope.signatures.push_back(Decoded(each["sig"], kMostId));
    if (envelope.signatures.back().size() != kSignature) each.Refuse("must hold 64 bytes");
  }
  return envelope;
}

int64_t CountSigners(const Envelope& envelope, const std::set<Key>& keys) {
  // DSSE's pre-authentication encoding.
  const std::string message =
      Cat({"DSSEv1 ", envelope.type.size(), " ", envelope.type, " ", envelope.payload.size(), " ", envelope.payload});
  return std::count_if(keys.begin(), keys.end(), [&](const Key& key) {
    return std::any_of(envelope.signatures.begin(), envelope.signatures.end(), [&](const std::string& signature) {
      return crypto_sign_ed25519_verify_detached(Unsigned(signature), Unsigned(message), message.size(), key.data()) == 0;
    });
  });
}

void RequireSigned(const Envelope& envelope, std::string_view type, const Role& role, const std::string& what) {
  if (envelope.type != type) {
    Throw(EDGE_REFUSED, "envelope", {what, ": the envelope holds ", Quote(envelope.type), ", not ", type});
  }
  const int64_t count = CountSigners(envelope, role.keys);
  if (count >= role.threshold) return;
  if (count == 0) {
    Throw(EDGE_REFUSED, "signature", {what, " has no signature by a key that this board trusts for it"});
  }
  Throw(EDGE_REFUSED, "threshold", {what, " is signed by ", count, " of the keys that this board trusts for it; ",
                                    role.threshold, " must sign"});
}

}  // namespace edge::field
