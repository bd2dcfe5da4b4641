#include "opencl/cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <tuple>
#include <vector>

#include "file.h"

namespace edge::opencl {
namespace {

constexpr std::string_view kHead = "edge-rt, an OpenCL program, 1\n";
constexpr int64_t kMostFile = int64_t{64} << 20;
constexpr size_t kMostFiles = 1024;
constexpr int64_t kMostBytes = int64_t{256} << 20;
constexpr time_t kStale = 3600;  // seconds; a file that is still being written is younger

// FNV-1a (Fowler, Noll, Vo), 64 bits: it names files and finds damage; keys are compared as a whole.
uint64_t Digest(std::string_view bytes) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char byte : bytes) digest = (digest ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return digest;
}

std::string Number(uint64_t number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string PathOf(const std::string& folder, const std::string& key) {
  char name[32];
  std::snprintf(name, sizeof name, "%016llx.bin", static_cast<unsigned long long>(Digest(key)));
  return folder + "/" + name;
}

// What stands before the binary: who wrote it, for what, and how long it is.
std::string Head(const std::string& key, size_t binary) {
  return std::string(kHead) + Number(key.size()) + key + Number(binary);
}

std::string Content(const std::string& path) {
  const File file(path);
  const int64_t size = file.fd() < 0 ? -1 : file.Size();
  if (size <= 0 || size > kMostFile) return "";
  std::string content(size, '\0');
  return ReadWhole(file.fd(), content.data(), content.size()) == size ? content : "";
}

void Prune(const std::string& folder) {
  DIR* opened = opendir(folder.c_str());
  if (opened == nullptr) return;
  std::vector<std::tuple<time_t, std::string, int64_t>> files;
  int64_t bytes = 0;
  while (const dirent* entry = readdir(opened)) {
    const std::string path = folder + "/" + entry->d_name;
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (path.ends_with(".new")) {  // of a process that was killed, perhaps
      if (time(nullptr) - status.st_mtime > kStale) unlink(path.c_str());
    } else if (path.ends_with(".bin")) {
      files.emplace_back(status.st_mtime, path, status.st_size);
      bytes += status.st_size;
    }
  }
  closedir(opened);
  std::sort(files.begin(), files.end());
  size_t count = files.size();
  for (const auto& [used, path, size] : files) {
    if (count <= kMostFiles && bytes <= kMostBytes) break;
    unlink(path.c_str());
    --count;
    bytes -= size;
  }
}

}  // namespace

std::optional<std::string> KeptBinary(const std::string& folder, const std::string& key) {
  const std::string path = PathOf(folder, key);
  const std::string content = Content(path);
  const size_t head = kHead.size() + sizeof(uint64_t) + key.size() + sizeof(uint64_t);
  if (content.size() < head + sizeof(uint64_t)) return std::nullopt;
  const size_t binary = content.size() - head - sizeof(uint64_t);
  const std::string_view whole = content;
  if (!whole.starts_with(Head(key, binary)) ||
      whole.substr(head + binary) != Number(Digest(whole.substr(0, head + binary)))) {
    return std::nullopt;
  }
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // it was used now
  return content.substr(head, binary);
}

void KeepBinary(const std::string& folder, const std::string& key, const std::string& binary) {
  const std::string path = PathOf(folder, key), fresh = path + "." + std::to_string(getpid()) + ".new";
  std::string content = Head(key, binary.size()) + binary;
  content += Number(Digest(content));
  if (static_cast<int64_t>(content.size()) > kMostFile) return;
  Fd file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return;
  const bool written = WriteWhole(file.get(), content) && fsync(file.get()) == 0;
  file.Close();
  if (!written || rename(fresh.c_str(), path.c_str()) != 0) unlink(fresh.c_str());
  Prune(folder);
}

}  // namespace edge::opencl
