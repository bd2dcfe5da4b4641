#include "field/parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "edge_rt.h"
#include "field/disk.h"
#include "file.h"
#include "sha256.h"
#include "text.h"

namespace edge::field {
namespace {

// The kernel begins to write after so many bytes, so that a cut loses few of them and the end need not wait for all.
constexpr int64_t kWriteEvery = int64_t{4} << 20;

// Parts of the app's releases by size; what they hold is not known yet. What a cut left beside them is none: Unpack removes it.
std::multimap<int64_t, std::string> Candidates(const Place& place) {
  std::multimap<int64_t, std::string> files;
  for (const std::string& digest : Names(place.Releases())) {
    if (!IsDigest(digest)) continue;
    for (const std::string inner : {"", "/sample", "/expected"}) {
      const std::string folder = place.Release(digest) + inner;
      for (const std::string& name : Names(folder)) {
        if (name.ends_with(kFresh)) continue;
        const std::string path = folder + "/" + name;
        if (const int64_t size = FileSize(path); size >= 0) files.emplace(size, path);
      }
    }
  }
  return files;
}

// "" of a file that cannot be read, as where the disk has a bad sector: it is no part of a release.
std::string DigestIfReadable(const std::string& path) {
  try {
    return DigestOf(path);
  } catch (const Failure&) {
    return "";
  }
}

// What the kernel could not write is no longer to be written again: what it has of the file is not what the disk has.
void SyncPart(const Handle& file, const std::string& path) {
  try {
    file.Sync("part");
  } catch (...) {
    Remove(path);
    throw;
  }
}

}  // namespace

Parts::Parts(const Place& place, const Release& release)
    : place_(place), release_(release), found_(release.parts.size()) {
  const std::multimap<int64_t, std::string> files = Candidates(place);
  std::map<std::string, std::optional<std::string>> digests;
  std::map<std::string, std::string> paths;
  for (size_t i = 0; i < found_.size(); ++i) {
    const Part& part = release.parts[i];
    Found& found = found_[i];
    if (paths.count(part.sha256) != 0) {  // the same bytes as an earlier part
      found.path = paths[part.sha256];
      continue;
    }
    const auto [begin, end] = files.equal_range(part.bytes);
    for (auto file = begin; file != end && found.path.empty(); ++file) {
      std::optional<std::string>& digest = digests[file->second];
      if (!digest) digest = DigestIfReadable(file->second);
      if (*digest == part.sha256) found.path = file->second;
    }
    if (found.path.empty()) {
      found.path = place.Incoming() + "/" + part.sha256;
      found.offset = std::max<int64_t>(0, FileSize(found.path));
      if (found.offset > part.bytes || (found.offset == part.bytes && DigestIfReadable(found.path) != part.sha256)) {
        Remove(found.path);
        found.offset = 0;
      }
      found.needed = found.offset < part.bytes || FileSize(found.path) < 0;
      if (!found.needed) SyncPart(Handle(found.path, O_WRONLY), found.path);  // who wrote it may have been killed before
    }
    paths[part.sha256] = found.path;
  }
}

int64_t Parts::Missing() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < found_.size(); ++i) {
    if (found_[i].needed) bytes += release_.parts[i].bytes - found_[i].offset;
  }
  return bytes;
}

void Parts::Receive(Stream* stream) {
  if (stream->dialogue()) {
    std::string needs;
    for (size_t i = 0; i < found_.size(); ++i) {
      if (found_[i].needed) needs += Cat({needs.empty() ? "" : ", ", "[", i, ", ", found_[i].offset, "]"});
    }
    Say("{\"need\": [" + needs + "]}");
  }
  for (size_t i = 0; i < found_.size(); ++i) {
    if (found_[i].needed) {
      Take(stream, i);
    } else if (!stream->dialogue()) {
      stream->Skip(release_.parts[i].bytes);
    }
  }
}

void Parts::Take(Stream* stream, size_t part) {
  try {
    if (!stream->dialogue()) stream->Skip(found_[part].offset);
    Add(stream, part);
  } catch (...) {
    SyncFolder(place_.Incoming(), "incoming");
    throw;
  }
}

void Parts::Add(Stream* stream, size_t part) {
  Found& found = found_[part];
  int64_t left = release_.parts[part].bytes - found.offset, unwritten = 0;
  found.resumed = found.offset > 0;
  char bytes[65536];
  Sha256 sha256;
  if (found.resumed) {
    const File before(found.path);
    for (ssize_t got; (got = ReadSome(before.fd(), bytes, sizeof bytes)) != 0; sha256.Add(bytes, got)) {
      if (got < 0) ThrowDisk("cannot read ", found.path);
    }
  }
  const Handle file(found.path, O_WRONLY | O_CREAT | O_APPEND);
  try {
    while (left > 0) {
      const size_t got = stream->Read(bytes, std::min<int64_t>(left, sizeof bytes));
      file.Write({bytes, got});
      sha256.Add(bytes, got);
      received_ += got;
      left -= got;
      if ((unwritten += got) >= kWriteEvery) {
        sync_file_range(file.fd(), 0, 0, SYNC_FILE_RANGE_WRITE);
        unwritten = 0;
      }
    }
  } catch (...) {
    SyncPart(file, found.path);
    throw;
  }
  SyncPart(file, found.path);
  found.digest = sha256.Digest();
}

void Parts::Check() const {
  std::optional<Failure> failure;
  for (size_t i = 0; i < found_.size(); ++i) {
    const Part& part = release_.parts[i];
    if (!found_[i].needed || found_[i].digest == part.sha256) continue;
    Remove(found_[i].path);
    if (found_[i].resumed) {
      failure.emplace(EDGE_FAILED, kResumed, part.name + " was damaged where it was cut before: the next installation "
                      "receives all of it");
    } else if (!failure) {
      failure.emplace(EDGE_REFUSED, "digest", part.name + " is not what the release says");
    }
  }
  if (failure) throw *failure;
}

std::string Damage(const std::string& folder, const Release& release, bool digests) {
  for (const Part& part : release.parts) {
    const std::string path = folder + "/" + part.name;
    if (FileSize(path) != part.bytes) return part.name + " is missing, or has another size";
    if (digests && DigestIfReadable(path) != part.sha256) return part.name + " has changed, or cannot be read";
  }
  return "";
}

}  // namespace edge::field
