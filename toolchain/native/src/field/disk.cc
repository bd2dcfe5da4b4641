#include "field/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "edge_rt.h"
#include "field/seam.h"
#include "file.h"
#include "sha256.h"
#include "text.h"

namespace edge::field {

void ThrowDisk(const char* doing, std::string_view path) {
  const int error = errno;
  Failure failure = Io(Cat({doing, path}));
  if (error == ENOSPC || error == EDQUOT) failure.kind = "space";
  if (error == EROFS) failure.kind = "read-only";
  if (error == EIO) failure.kind = "disk";
  throw failure;
}

Handle::Handle(const std::string& path, int flags)
    : path_(path), fd_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0644)) {
  if (fd_ < 0) ThrowDisk("cannot open ", path);
}

Handle::~Handle() { close(fd_); }

void Handle::Write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) ThrowDisk("cannot write ", path_);
    bytes.remove_prefix(wrote);
  }
}

void Handle::Sync(const char* name) const {
  if (LeavesOut(name)) return;
  if (fsync(fd_) != 0) ThrowDisk("cannot write ", path_);
}

void SyncFolder(const std::string& folder, const char* name) { Handle(folder, O_RDONLY | O_DIRECTORY).Sync(name); }

bool MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0755) == 0) return true;
  if (errno != EEXIST) ThrowDisk("cannot make ", folder);
  return false;
}

void Replace(const std::string& path, std::string_view content, const char* name) {
  const std::string fresh = path + ".new";
  {
    const Handle file(fresh, O_WRONLY | O_CREAT | O_TRUNC);
    file.Write(content);
    file.Sync(name);
  }
  if (rename(fresh.c_str(), path.c_str()) != 0) ThrowDisk("cannot write ", path);
}

void Point(const std::string& link, const std::string& target) {
  const std::string fresh = link + ".new";
  Remove(fresh);
  if (symlink(target.c_str(), fresh.c_str()) != 0 || rename(fresh.c_str(), link.c_str()) != 0) {
    ThrowDisk("cannot make ", link);
  }
}

static void Copy(const std::string& from, const std::string& to) {
  const File in(from);
  const Handle out(to, O_WRONLY | O_CREAT | O_TRUNC);
  char bytes[65536];
  for (ssize_t got; (got = read(in.fd(), bytes, sizeof bytes)) != 0;) {
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
  size_t done = 0;
  for (ssize_t got; done < text.size(); done += got) {
    got = read(file.fd(), text.data() + done, text.size() - done);
    if (got < 0) ThrowDisk("cannot read ", path);
    if (got == 0) break;
  }
  text.resize(done);
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
  for (ssize_t got; (got = read(file.fd(), bytes, sizeof bytes)) != 0;) {
    if (got < 0) ThrowDisk("cannot read ", path);
    sha256.Add(bytes, got);
  }
  return sha256.Digest();
}

void Remove(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  const bool folder = S_ISDIR(status.st_mode);
  if (folder) {
    for (const std::string& name : Names(path)) Remove(path + "/" + name);
  }
  if ((folder ? rmdir(path.c_str()) : unlink(path.c_str())) != 0) ThrowDisk("cannot remove ", path);
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace edge::field
