#include "field/trust.h"

#include <map>

#include "edge_rt.h"
#include "failure.h"
#include "json.h"
#include "sha256.h"
#include "sodium.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr size_t kMostKeys = 32;

Key KeyOf(const std::string& digits) {
  Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  return key;
}

// Keys by their ids.
std::map<std::string, Key> ReadKeys(const Node& node) {
  std::map<std::string, Key> keys;
  for (const Node& each : node.List(1, kMostKeys)) {
    each.Exactly("keyid public");
    const Key key = KeyOf(each["public"].Hex(64));
    if (edge_is_public_key(key.data()) == 0) each.Refuse("is no public key that one person alone could sign for");
    Sha256 id;
    id.Add(key.data(), key.size());
    if (each["keyid"].Hex(64) != id.Digest()) each.Refuse("has an id that is not the SHA-256 of its 32 bytes");
    if (!keys.emplace(each["keyid"].Hex(64), key).second) each.Refuse("occurs twice");
  }
  return keys;
}

Role ReadRole(const Node& node, const std::map<std::string, Key>& keys) {
  node.Exactly("keyids threshold");
  Role role;
  for (const Node& each : node["keyids"].List(1, kMostKeys)) {
    const auto key = keys.find(each.Hex(64));
    if (key == keys.end()) each.Refuse("is none of the keys");
    if (!role.keys.insert(key->second).second) each.Refuse("occurs twice");
  }
  role.threshold = node["threshold"].Int(1, static_cast<int64_t>(role.keys.size()));
  return role;
}

Trust Parsed(std::string_view bytes, const Envelope& envelope) {
  const Json json = ReadJson(envelope.payload, kTrust);
  const Node node(json, kTrust);
  node.Exactly("format version expires keys root release");
  node["format"].Int(1, 1);
  const std::map<std::string, Key> keys = ReadKeys(node["keys"]);
  return {std::string(bytes),          envelope.payload,
          node["version"].Int(1, kLargest), node["expires"].Int(1, kLargest),
          ReadRole(node["root"], keys), ReadRole(node["release"], keys)};
}

}  // namespace

Trust ReadTrust(std::string_view bytes) {
  const Envelope envelope = ReadEnvelope(bytes);
  Trust trust = Parsed(bytes, envelope);  // the keys that must have signed it are in it
  RequireSigned(envelope, kTrustType, trust.root, Cat({"trust ", trust.version}));
  return trust;
}

Trust Successor(const Trust& trust, std::string_view bytes) {
  const Envelope envelope = ReadEnvelope(bytes);
  RequireSigned(envelope, kTrustType, trust.root, Cat({"the successor of trust ", trust.version}));
  Trust next = Parsed(bytes, envelope);
  if (next.version != trust.version + 1) {
    Throw(EDGE_REFUSED, kTrust, {"trust ", next.version, " does not follow trust ", trust.version, ", which this board has"});
  }
  RequireSigned(envelope, kTrustType, next.root, Cat({"trust ", next.version}));
  return next;
}

Trust Newest(const Trust& trust, const std::vector<std::string>& envelopes) {
  size_t begin = 0;
  for (size_t i = 0; i < envelopes.size(); ++i) {
    if (ReadEnvelope(envelopes[i]).payload == trust.payload) begin = i + 1;
  }
  Trust newest = trust;
  for (size_t i = begin; i < envelopes.size(); ++i) newest = Successor(newest, envelopes[i]);
  return newest;
}

}  // namespace edge::field
