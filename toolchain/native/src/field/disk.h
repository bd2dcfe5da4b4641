// Files that a power cut at any moment leaves old or new. By open, write, fsync, rename, link, symlink, unlinkat alone,
// and on one thread: a test records each of these calls and tries every state that a cut could leave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "failure.h"
#include "file.h"

namespace edge::field {

// Throws a Failure: `doing` ("cannot open "), the path, what errno says. Its kind is "space", "read-only", "disk" (EIO) or "io".
[[noreturn]] void ThrowDisk(const char* doing, std::string_view path = "");

// What may fail without changing how a command ended; whether it did not.
template <typename Work>
bool IfPossible(const Work& work) {
  try {
    work();
  } catch (const Failure&) {
    return false;
  }
  return true;
}

// An open file or folder, until the end of the block.
class Handle {
 public:
  Handle(const std::string& path, int flags);  // throws if it cannot be opened

  int fd() const { return fd_.get(); }
  void Write(std::string_view bytes) const;
  // What was written is on the disk. `name` names this fsync for the test that leaves out each in turn.
  void Sync(const char* name) const;

 private:
  std::string path_;
  Fd fd_;
};

// Its names are on the disk.
void SyncFolder(const std::string& folder, const char* name);

// Made if it is missing; whether it was.
bool MakeFolder(const std::string& folder);

// The end of the name of what is not whole yet.
constexpr const char* kFresh = ".new";

// The file has this content or what it had: PATH.new, fsync "NAME", rename. The folder is for the caller to sync. What fails
// leaves no PATH.new if the disk lets go of it.
void Replace(const std::string& path, std::string_view content, const char* name);

// A symbolic link, as above.
void Point(const std::string& link, const std::string& target);

// The same file under a second name; a copy (fsync "copy") where the file system has no links.
void Link(const std::string& from, const std::string& to);

// Nothing for a file that is missing. Throws for one of more bytes.
std::optional<std::string> ReadSmall(const std::string& path, size_t most);

// Bytes of an ordinary file; -1 for what is none.
int64_t FileSize(const std::string& path);

// 64 hexadecimal digits.
std::string DigestOf(const std::string& path);

// Whatever it is; no link on the way down is followed, whoever exchanges folders meanwhile. Nothing where it is missing.
void Remove(const std::string& path);

// Sorted; none of a folder that is missing, or of a link to one.
std::vector<std::string> Names(const std::string& folder);

// Throws EDGE_REFUSED, "folder", for a folder, or one of its `inner` folders with all below them, that is a link, that
// belongs to others than this user and root, or that others may write to: they could have what is below lead anywhere. What
// is missing is right.
void CheckFolders(const std::string& folder, const std::vector<std::string>& inner);

}  // namespace edge::field
