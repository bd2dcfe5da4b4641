#include "field/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "edge_rt.h"
#include "field/members.h"
#include "field/seam.h"
#include "file.h"
#include "json.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr size_t kMostOwner = 512;  // bytes
// Whoever asks for the status holds the lock for a moment.
constexpr int kTries = 20;
constexpr std::chrono::nanoseconds kNextTry = std::chrono::milliseconds(10);

std::string LockPath(const std::string& field) { return field + "/lock"; }

std::string Words(int64_t pid, std::string_view boot, int64_t since, std::string_view what) {
  return JsonMembers().Number("pid", pid).Text("boot", boot).Number("since", since).Text("what", what).Object();
}

// Its words again, and no others: whoever may write into this folder is read by operators.
std::string Owner(const std::string& path) {
  try {
    const Json json = ReadJson(ReadSmall(path, kMostOwner).value_or(""), "lock");
    const Node owner(json, "lock");
    return Words(owner["pid"].Int(1, kLargest), owner["boot"].Text(64), owner["since"].Int(0, kLargest), owner["what"].Text(200));
  } catch (const Failure&) {
    return "null";  // it has only just begun
  }
}

}  // namespace

Turn::Turn(const std::string& field, const std::string& what) : file_(LockPath(field), O_RDWR | O_CREAT) {
  for (int left = kTries; flock(file_.fd(), LOCK_EX | LOCK_NB) != 0; --left) {
    if (errno == EINTR || (errno == EWOULDBLOCK && left > 0)) {
      std::this_thread::sleep_for(kNextTry);
      continue;
    }
    if (errno != EWOULDBLOCK) ThrowDisk("cannot lock ", LockPath(field));
    const std::string owner = Owner(LockPath(field));
    throw Failure(EDGE_BUSY, "busy", "another installation is at work on this board: " + owner,
                  ", \"holder\": " + owner);
  }
  const std::string text =
      Words(getpid(), FirstLine("/proc/sys/kernel/random/boot_id").value_or("?"), Now(), what) + "\n";
  // In place: on a full disk there may be no other.
  file_.Write(text);
  if (ftruncate(file_.fd(), static_cast<off_t>(text.size())) != 0) ThrowDisk("cannot write ", LockPath(field));
}

std::string AtWork(const std::string& field) {
  const File file(LockPath(field));
  if (file.fd() < 0 || flock(file.fd(), LOCK_SH | LOCK_NB) == 0) return "null";
  return Owner(LockPath(field));
}

}  // namespace edge::field
