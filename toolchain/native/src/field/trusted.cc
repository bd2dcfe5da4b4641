#include "field/trusted.h"

#include "edge_rt.h"
#include "failure.h"
#include "field/disk.h"
#include "field/members.h"
#include "text.h"

namespace edge::field {
namespace {

std::string TrustPath(const std::string& field) { return field + "/trust.json"; }

void Keep(const std::string& field, const Trust& trust) {
  Replace(TrustPath(field), trust.envelope, "trust");
  SyncFolder(field, "field");
}

}  // namespace

Trust StoredTrust(const std::string& field) {
  const auto envelope = ReadSmall(TrustPath(field), kMostEnvelope);
  if (!envelope) {
    Throw(EDGE_REFUSED, kTrust, {"this board trusts nobody yet: `toolchain board provision --trust FILE`"});
  }
  return ReadTrust(*envelope);
}

std::string JsonTrust(const Trust& trust) {
  return JsonMembers().Number("version", trust.version).Number("expires", trust.expires).Object();
}

Trust Advance(const std::string& field, const std::vector<std::string>& envelopes) {
  const Trust old = StoredTrust(field);
  Trust trust = Newest(old, envelopes);
  if (trust.version != old.version) Keep(field, trust);
  return trust;
}

Trust Begin(const std::string& field, const std::string& envelope) {
  Trust trust = ReadTrust(envelope);
  if (const auto old = ReadSmall(TrustPath(field), kMostEnvelope)) {
    if (ReadTrust(*old).payload != trust.payload) {
      Throw(EDGE_REFUSED, kTrust, {"this board has a trust already, which only its successor replaces"});
    }  // who wrote the same may have failed to bring it to the disk
  }
  Keep(field, trust);
  return trust;
}

}  // namespace edge::field
