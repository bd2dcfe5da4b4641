#include "field/unpack.h"

#include <cstdio>
#include <set>

#include "edge_rt.h"
#include "field/disk.h"
#include "text.h"

namespace edge::field {

void Unpack(const Place& place, const Release& release, const Parts& parts) {
  const std::string folder = place.Release(release.digest), fresh = folder + ".new";
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
    const std::string linked = path + ".new";
    Remove(linked);
    Link(parts.Path(i), linked);
    if (rename(linked.c_str(), path.c_str()) != 0) ThrowDisk("cannot make ", path);
    Remove(linked);  // where both were one file already, a rename leaves both names
  }
  for (const std::string& name : inner) SyncFolder(into + "/" + name, "inner");
  SyncFolder(into, "names");
  if (!there && rename(fresh.c_str(), folder.c_str()) != 0) ThrowDisk("cannot make ", folder);
  SyncFolder(place.Releases(), "releases");
}

Release ReadInstalled(const Place& place, const std::string& digest, bool digests) {
  const std::string folder = place.Release(digest);
  std::string damage;
  try {
    const auto envelope = ReadSmall(folder + "/release.json", kMostEnvelope);
    if (!envelope) Throw(EDGE_FAILED, "damaged", {"there is no release ", digest, " on this board"});
    Release release = ReadKept(*envelope);
    damage = release.digest == digest ? Damage(folder, release, digests) : "it is another release";
    if (damage.empty()) return release;
  } catch (const Failure& failure) {
    if (failure.kind == "damaged") throw;
    damage = failure.what();  // its statement was cut short, or the disk does not give it back
  }
  Throw(EDGE_FAILED, "damaged", {"release ", digest, " is damaged: ", damage});
}

void RemoveIncoming(const Place& place) {
  for (const std::string& name : Names(place.Incoming())) Remove(place.Incoming() + "/" + name);
}

void RemoveRests(const Place& place) {
  for (const char* name : {"current.new", "previous.new", "state.new"}) Remove(place.Path(name));
  for (const std::string& name : Names(place.Releases())) {
    if (!IsDigest(name)) Remove(place.Releases() + "/" + name);
  }
}

}  // namespace edge::field
