// The parts of a release: which are on the board already, and those that come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "field/place.h"
#include "field/statement.h"
#include "field/stream.h"

namespace edge::field {

class Parts {
 public:
  // Looks for each part in the app's releases, by its digest, and in what came before (`incoming`).
  Parts(const Place& place, const Release& release);

  // Bytes that must still come.
  int64_t Missing() const;
  // Receives them. All that came is on the disk afterwards, also where it throws.
  void Receive(Stream* stream);
  int64_t received() const { return received_; }
  // Throws for parts that are not what the release says, and removes them: EDGE_REFUSED, "digest"; EDGE_FAILED, "resumed",
  // where the beginning was here before, which the next installation does not take again.
  void Check() const;
  // Where a part of the release is on this board, as they are numbered there.
  const std::string& Path(size_t part) const { return found_[part].path; }

 private:
  struct Found {
    std::string path;
    int64_t offset = 0;      // bytes that are there
    bool needed = false;     // it is incoming
    bool resumed = false;
    std::string digest;      // of what came
  };

  void Take(Stream* stream, size_t part);
  void Add(Stream* stream, size_t part);

  const Place& place_;
  const Release& release_;
  std::vector<Found> found_;
  int64_t received_ = 0;
};

// Says how the parts in a release's folder differ from what the release says: the first one; empty if none does. Whether
// they are there with their sizes and, if `digests`, what they hold.
std::string Damage(const std::string& folder, const Release& release, bool digests);

}  // namespace edge::field
