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
  std::stable_sort(others.begin(), others.end(), [&](const std::string& a, const std::string& b) {
    return Changed(place.Release(a)) > Changed(place.Release(b));
  });
  for (size_t i = std::clamp<int64_t>(keep, 0, others.size()); i < others.size(); ++i) {
    Remove(place.Release(others[i]));
    removed.push_back(others[i]);
  }
  return removed;
}

}  // namespace edge::field
