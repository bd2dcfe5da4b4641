#include "field/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "field/disk.h"
#include "field/seam.h"
#include "text.h"

namespace edge::field {

constexpr int64_t kMostJournal = 65536;  // bytes

void Note(const Place& place, const std::string& members) {
  const std::string path = place.Path("journal");
  const std::string line = Cat({"{\"at\": ", Now(), ", ", members, "}\n"});
  if (FileSize(path) > kMostJournal - static_cast<int64_t>(line.size()) &&
      rename(path.c_str(), place.Path("journal.1").c_str()) != 0) {
    ThrowDisk("cannot write ", path);
  }
  const Handle file(path, O_RDWR | O_CREAT | O_APPEND);
  // A line that was cut stays a line of its own.
  char last = '\n';
  const off_t size = lseek(file.fd(), 0, SEEK_END);
  if (size > 0 && pread(file.fd(), &last, 1, size - 1) != 1) ThrowDisk("cannot read ", path);
  file.Write(last == '\n' ? line : "\n" + line);
  file.Sync("journal");
}

}  // namespace edge::field
