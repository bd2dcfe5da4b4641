#include "folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "edge_rt.h"
#include "failure.h"
#include "text.h"

namespace edge {
namespace {

// Whether it was missing.
bool Make(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) == 0) {
    if (chmod(folder.c_str(), 0700) == 0) return true;  // the umask may have taken our own rights
  } else if (errno == EEXIST) {
    return false;
  }
  throw Io("cannot make " + folder);
}

struct stat Own(const std::string& folder) {
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0) throw Io("cannot open " + folder);
  if (!S_ISDIR(status.st_mode)) throw Failure(EDGE_FAILED, "state", folder + " is no folder");
  if (status.st_uid != geteuid()) {
    throw Failure(EDGE_FAILED, "state", folder + " belongs to user id " +
                  std::to_string(status.st_uid) + ", this is " + std::to_string(geteuid()) +
                  ": give another one with --state");
  }
  return status;
}

// Each step down is from a folder that is open.
bool RemoveIn(int at, const std::string& name) {
  if (unlinkat(at, name.c_str(), 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR) return false;
  const OpenFolder folder(at, name);
  for (const std::string& inner : folder.Names()) {
    if (!RemoveIn(folder.fd(), inner)) return false;
  }
  return unlinkat(at, name.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace

OpenFolder::OpenFolder(int at, const std::string& name)
    : fd_(openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}

std::vector<std::string> OpenFolder::Names() const {
  std::vector<std::string> names;
  Fd again(fcntl(fd(), F_DUPFD_CLOEXEC, 0));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(again ? fdopendir(again.get()) : nullptr, closedir);
  if (entries == nullptr) return names;
  again.Release();  // closedir closes it
  while (const dirent* entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool RemoveTree(const std::string& path) { return RemoveIn(AT_FDCWD, path); }

std::string MakeState(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    Make(path.substr(0, end));
    if (end == path.npos) break;
  }
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) throw Io("cannot open " + path);
  if ((Own(resolved).st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    throw Failure(EDGE_FAILED, "state", std::string("others may write to ") + resolved +
                  ": `chmod go-w " + resolved + "`, or give another one with --state");
  }
  return resolved;
}

void MakeInside(const std::string& path) {
  Make(path);
  if ((Own(path).st_mode & 07777) != 0700 && chmod(path.c_str(), 0700) != 0) {
    throw Io("cannot close " + path + " to others");
  }
}

}  // namespace edge
