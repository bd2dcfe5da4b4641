#include "field/prune.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "field/disk.h"

namespace edge::field {

static int64_t Changed(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mtime : 0;
}

std::vector<std::string> Prune(const Place& place, int64_t keep, const std::string& except) {
  std::vector<std::string> others, removed;
  for (const std::string& name : Names(place.Releases())) {
    if (name == except || name == place.Named(kCurrent) || name == place.Named(kPrevious)) {
      --keep;
    } else if (IsDigest(name)) {
      others.push_back(name);
    }
  }
  while (static_cast<int64_t>(others.size()) > std::max<int64_t>(keep, 0)) {
    size_t oldest = 0;  // the last one of several
    for (size_t i = 1; i < others.size(); ++i) {
      if (Changed(place.Release(others[i])) <= Changed(place.Release(others[oldest]))) oldest = i;
    }
    const std::string path = place.Release(others[oldest]), old = path + ".old";
    if (rename(path.c_str(), old.c_str()) != 0) ThrowDisk("cannot remove ", path);
    Remove(old);
    removed.push_back(others[oldest]);
    others.erase(others.begin() + static_cast<ptrdiff_t>(oldest));
  }
  return removed;
}

}  // namespace edge::field
