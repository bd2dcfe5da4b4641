#include "field/unpack.h"

#include <cstdio>
#include <set>

#include "edge_rt.h"
#include "field/disk.h"
#include "text.h"

namespace edge::field {

std::optional<Release> Kept(const Place& place, const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  try {
    return ReadKept(ReadSmall(place.Release(*name) + "/release.json", kMostEnvelope).value_or(""));
  } catch (const Failure&) {
    return std::nullopt;
  }
}

std::optional<std::string> BundleOf(const Place& place, const std::optional<std::string>& name) {
  const std::optional<Release> release = Kept(place, name);
  return release ? release->digest : name;
}

std::string NameOf(const Place& place, const Release& release) {
  const auto is_it = [&](const std::string& name) {
    const std::optional<Release> kept = Kept(place, name);
    return kept && kept->statement == release.statement;
  };
  if (is_it(release.statement) || (Kept(place, release.digest) && !is_it(release.digest))) return release.statement;
  return release.digest;
}

void Unpack(const Place& place, const std::string& name, const Release& release, const Parts& parts) {
  const std::string folder = place.Release(name), fresh = folder + kFresh;
  const bool there = !Names(folder).empty();
  const std::string into = there ? folder : fresh;
  if (!there) {
    Remove(fresh);
    MakeFolder(fresh);
  }
  Replace(into + "/release.json", release.envelope, "release");
  std::set<std::string> inner;
  for (size_t i = 0; i < release.parts.size(); ++i) {
    const Part& part = release.parts[i];
    const std::string path = into + "/" + part.name;
    if (parts.Path(i) == path) continue;
    if (const size_t slash = part.name.find('/'); slash != part.name.npos) {
      if (inner.insert(part.name.substr(0, slash)).second) MakeFolder(into + "/" + part.name.substr(0, slash));
    }
    const std::string linked = path + kFresh;
    Remove(linked);
    Link(parts.Path(i), linked);
    if (rename(linked.c_str(), path.c_str()) != 0) ThrowDisk("cannot make ", path);
    Remove(linked);  // where both were one file already, a rename leaves both names
  }
  for (const std::string& each : inner) SyncFolder(into + "/" + each, "inner");
  SyncFolder(into, "names");
  if (!there && rename(fresh.c_str(), folder.c_str()) != 0) ThrowDisk("cannot make ", folder);
  SyncFolder(place.Releases(), "releases");
}

Release ReadInstalled(const Place& place, const std::string& name, bool digests) {
  std::string damage;
  try {
    const auto envelope = ReadSmall(place.Release(name) + "/release.json", kMostEnvelope);
    if (!envelope) Throw(EDGE_FAILED, kDamaged, {"there is no release ", name, " on this board"});
    Release release = ReadKept(*envelope);
    const bool is_it = release.digest == name || release.statement == name;
    damage = is_it ? Damage(place.Release(name), release, digests) : "it is another release";
    if (damage.empty()) return release;
  } catch (const Failure& failure) {
    if (failure.Is(kDamaged)) throw;
    damage = failure.what();  // its statement was cut short, or the disk does not give it back
  }
  Throw(EDGE_FAILED, kDamaged, {"release ", name, " is damaged: ", damage});
}

void RemoveIncoming(const Place& place) {
  for (const std::string& name : Names(place.Incoming())) Remove(place.Incoming() + "/" + name);
}

void RemoveRests(const Place& place) {
  for (const char* name : {kCurrent, kPrevious, "state", "newest"}) Remove(place.Path(name) + kFresh);
  for (const std::string& name : Names(place.Releases())) {
    if (!IsDigest(name)) Remove(place.Release(name));
    for (const std::string inner : {"", "/sample", "/expected"}) {
      const std::string folder = place.Release(name) + inner;
      for (const std::string& each : Names(folder)) {
        if (each.ends_with(kFresh)) Remove(folder + "/" + each);
      }
    }
  }
}

}  // namespace edge::field
