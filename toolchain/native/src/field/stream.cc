#include "field/stream.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "edge_rt.h"
#include "failure.h"
#include "field/disk.h"
#include "text.h"

namespace edge::field {
namespace {

volatile std::sig_atomic_t asked_to_stop = 0;

}  // namespace

Stream::Stream(const std::string& path, double silence_s)
    : file_(path == "-" ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      fd_(path == "-" ? STDIN_FILENO : file_.get()),
      dialogue_(path == "-"),
      silence_s_(silence_s) {
  if (fd_ < 0) ThrowDisk("cannot open ", path);
}

size_t Stream::ReadSome(char* to, size_t most) {
  for (;;) {
    StopIfAsked();
    pollfd wait{fd_, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(silence_s_ * 1000));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) Throw(EDGE_FAILED, kLinkBroke, {"nothing came for ", JsonNumber(silence_s_), " s"});
    const ssize_t got = read(fd_, to, most);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0 && !dialogue_) ThrowDisk("cannot read the release");
    return std::max<ssize_t>(got, 0);
  }
}

size_t Stream::Read(char* to, size_t most) {
  const size_t got = ReadSome(to, most);
  if (got == 0) Throw(EDGE_FAILED, kLinkBroke, {"the release ended before its last byte"});
  return got;
}

// Byte by byte: what follows belongs to others.
std::string Stream::Line(size_t most) {
  std::string line;
  for (char c; Read(&c, 1), c != '\n'; line += c) {
    if (line.size() == most) Throw(EDGE_REFUSED, "stream", {"a line of more than ", most, " bytes"});
  }
  return line;
}

std::string Stream::Bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t done = 0; done < count;) done += Read(bytes.data() + done, count - done);
  return bytes;
}

std::string Stream::All(size_t most) {
  std::string bytes(most + 1, '\0');
  size_t done = 0;
  for (size_t got; (got = ReadSome(bytes.data() + done, bytes.size() - done)) > 0;) done += got;
  if (done > most) Throw(EDGE_REFUSED, "stream", {"more than ", most, " bytes"});
  bytes.resize(done);
  return bytes;
}

void Stream::Skip(int64_t count) {
  char bytes[65536];
  while (count > 0) count -= Read(bytes, std::min<int64_t>(count, sizeof bytes));
}

void Say(const std::string& line) {
  WriteWhole(STDOUT_FILENO, line + "\n");
}

void IgnoreHangups() {
  std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction ask {};
  ask.sa_handler = [](int) { asked_to_stop = 1; };  // without SA_RESTART: what waits looks up
  sigaction(SIGINT, &ask, nullptr);
  sigaction(SIGTERM, &ask, nullptr);
}

void StopIfAsked() {
  if (asked_to_stop) Throw(EDGE_FAILED, kStopped, {"it was told to stop"});
}

}  // namespace edge::field
