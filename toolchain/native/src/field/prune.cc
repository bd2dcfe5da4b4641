#include "field/prune.h"

#include <sys/stat.h>

#include <algorithm>

#include "field/disk.h"

namespace edge::field {

static int64_t Changed(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mtime : 0;
}

std::vector<std::string> Prune(const Place& place, int64_t keep, const std::string& except) {
  std::vector<std::string> others, removed;
  for (const std::string& digest : Names(place.Releases())) {
    if (digest == except || digest == place.Named(kCurrent) || digest == place.Named(kPrevious)) {
      --keep;
    } else if (IsDigest(digest)) {
      others.push_back(digest);
    }
  }
  while (static_cast<int64_t>(others.size()) > std::max<int64_t>(keep, 0)) {
    size_t oldest = 0;  // the last one of several
    for (size_t i = 1; i < others.size(); ++i) {
      if (Changed(place.Release(others[i])) <= Changed(place.Release(others[oldest]))) oldest = i;
    }
    Remove(place.Release(others[oldest]));
    removed.push_back(others[oldest]);
    others.erase(others.begin() + static_cast<ptrdiff_t>(oldest));
  }
  return removed;
}

}  // namespace edge::field
