// What comes from a host or a file, with deadlines and limits, and the lines that go back.
#pragma once

#include <cstdint>
#include <string>

#include "file.h"

namespace edge::field {

class Stream {
 public:
  // Reads a file, or the standard input for "-". `silence_s`: the longest pause within what comes.
  Stream(const std::string& path, double silence_s);

  bool dialogue() const { return dialogue_; }

  // At most so many bytes, 0 at the end. Throws EDGE_FAILED: "link" after a silence, "stopped" once this process was told
  // to stop.
  size_t ReadSome(char* to, size_t most);
  // The same, but the end is a "link" that broke.
  size_t Read(char* to, size_t most);
  // Up to the newline, which is dropped. Throws EDGE_REFUSED, "stream", for a longer line.
  std::string Line(size_t most);
  std::string Bytes(size_t count);
  // To its end. Throws EDGE_REFUSED, "stream", for more than `most` bytes.
  std::string All(size_t most);
  void Skip(int64_t count);

 private:
  Fd file_;  // none: the standard input
  int fd_;
  bool dialogue_;
  double silence_s_;
};

// A line to the standard output. Nobody may be there to read it any more.
void Say(const std::string& line);

// From here on SIGHUP and SIGPIPE end nothing, and SIGINT and SIGTERM only ask.
void IgnoreHangups();
// Throws EDGE_FAILED, "stopped", after SIGINT or SIGTERM.
void StopIfAsked();

}  // namespace edge::field
