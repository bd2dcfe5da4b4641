#include "field/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "edge_rt.h"
#include "field/seam.h"
#include "file.h"
#include "folder.h"
#include "sha256.h"
#include "text.h"

namespace edge::field {

void ThrowDisk(const char* doing, std::string_view path) {
  const int error = errno;
  Failure failure = Io(Cat({doing, path}));
  if (error == ENOSPC || error == EDQUOT) failure.kind = kNoSpace;
  if (error == EROFS) failure.kind = "read-only";
  if (error == EIO) failure.kind = "disk";
  throw failure;
}

Handle::Handle(const std::string& path, int flags)
    : path_(path), fd_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0644)) {
  if (!fd_) ThrowDisk("cannot open ", path);
}

void Handle::Write(std::string_view bytes) const {
  if (!WriteWhole(fd(), bytes)) ThrowDisk("cannot write ", path_);
}

void Handle::Sync(const char* name) const {
  if (LeavesOut(name)) return;
  if (fsync(fd()) != 0) ThrowDisk("cannot write ", path_);
}

void SyncFolder(const std::string& folder, const char* name) { Handle(folder, O_RDONLY | O_DIRECTORY).Sync(name); }

bool MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0755) == 0) return true;
  if (errno != EEXIST) ThrowDisk("cannot make ", folder);
  return false;
}

void Replace(const std::string& path, std::string_view content, const char* name) {
  const std::string fresh = path + kFresh;
  try {
    const Handle file(fresh, O_WRONLY | O_CREAT | O_TRUNC);
    file.Write(content);
    file.Sync(name);
    if (rename(fresh.c_str(), path.c_str()) != 0) ThrowDisk("cannot write ", path);
  } catch (const Failure&) {
    unlinkat(AT_FDCWD, fresh.c_str(), 0);
    throw;
  }
}

void Point(const std::string& link, const std::string& target) {
  const std::string fresh = link + kFresh;
  Remove(fresh);
  if (symlink(target.c_str(), fresh.c_str()) == 0 && rename(fresh.c_str(), link.c_str()) == 0) return;
  const int error = errno;
  unlinkat(AT_FDCWD, fresh.c_str(), 0);
  errno = error;
  ThrowDisk("cannot make ", link);
}

static void Copy(const std::string& from, const std::string& to) {
  const File in(from);
  const Handle out(to, O_WRONLY | O_CREAT | O_TRUNC);
  char bytes[65536];
  for (ssize_t got; (got = ReadSome(in.fd(), bytes, sizeof bytes)) != 0;) {
    if (got < 0) ThrowDisk("cannot read ", from);
    out.Write({bytes, static_cast<size_t>(got)});
  }
  out.Sync("copy");
}

void Link(const std::string& from, const std::string& to) {
  if (link(from.c_str(), to.c_str()) == 0) return;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK) {
    ThrowDisk("cannot make ", to);
  }
  Copy(from, to);
}

std::optional<std::string> ReadSmall(const std::string& path, size_t most) {
  const File file(path);
  if (file.fd() < 0 && errno == ENOENT) return std::nullopt;
  const int64_t size = file.Size();
  if (size < 0) ThrowDisk("cannot read ", path);
  if (static_cast<uint64_t>(size) > most) {
    Throw(EDGE_FAILED, "disk", {path, " has ", size, " bytes, at most ", most, " are read"});
  }
  std::string text(size, '\0');
  const ssize_t got = ReadWhole(file.fd(), text.data(), text.size());
  if (got < 0) ThrowDisk("cannot read ", path);
  text.resize(got);
  return text;
}

int64_t FileSize(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

std::string DigestOf(const std::string& path) {
  const File file(path);
  if (file.Size() < 0) ThrowDisk("cannot read ", path);
  Sha256 sha256;
  char bytes[65536];
  for (ssize_t got; (got = ReadSome(file.fd(), bytes, sizeof bytes)) != 0;) {
    if (got < 0) ThrowDisk("cannot read ", path);
    sha256.Add(bytes, got);
  }
  return sha256.Digest();
}

namespace {

void CheckIn(int at, const std::string& name, const std::string& path, bool below) {
  const OpenFolder folder(at, name);
  struct stat status {};
  if (folder.fd() < 0) {
    if (errno == ENOENT) return;
    if (errno == ELOOP || errno == ENOTDIR) {
      Throw(EDGE_REFUSED, kFolder, {path, " is a link or a file, where a folder of edge-rt's own must be: move it away"});
    }
    ThrowDisk("cannot open ", path);
  }
  if (fstat(folder.fd(), &status) != 0) ThrowDisk("cannot read ", path);
  if ((status.st_uid != geteuid() && status.st_uid != 0) || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    Throw(EDGE_REFUSED, kFolder, {"user id ", geteuid(), " alone must own and write ", path,
                                   ": look at what is in it, then `chown` and `chmod go-w` it"});
  }
  if (!below) return;
  for (const std::string& inner : folder.Names()) {
    if (fstatat(folder.fd(), inner.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(status.st_mode)) continue;
    CheckIn(folder.fd(), inner, path + "/" + inner, true);
  }
}

}  // namespace

void Remove(const std::string& path) {
  if (!RemoveTree(path)) ThrowDisk("cannot remove ", path);
}

void CheckFolders(const std::string& folder, const std::vector<std::string>& inner) {
  CheckIn(AT_FDCWD, folder, folder, false);
  for (const std::string& name : inner) {
    const OpenFolder open(AT_FDCWD, folder);
    if (open.fd() >= 0) CheckIn(open.fd(), name, folder + "/" + name, true);
  }
}

std::vector<std::string> Names(const std::string& folder) { return OpenFolder(AT_FDCWD, folder).Names(); }

}  // namespace edge::field
