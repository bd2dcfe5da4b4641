#include "field/newest.h"

#include "edge_rt.h"
#include "field/disk.h"
#include "field/unpack.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr size_t kMostNewest = 256;  // bytes

std::string NewestPath(const Place& place) { return place.Path("newest"); }

[[noreturn]] void RefuseNewest(const Place& place, std::string_view why) {
  Throw(EDGE_REFUSED, "newest", {NewestPath(place), " ", why, ": write the newest version that this board had into it, by which it "
                                 "knows what is older (`echo 2.0.0 >newest` in that folder)"});
}

// A line of a version and, if edge-rt wrote it, the statement's digest.
std::optional<NewestVersion> ReadNewestFile(const Place& place) {
  std::optional<std::string> text;
  try {
    text = ReadSmall(NewestPath(place), kMostNewest);
  } catch (const Failure& failure) {
    RefuseNewest(place, Cat({"cannot be read (", failure.what(), ")"}));
  }
  if (!text) return std::nullopt;
  const std::vector<std::string> lines = Split(*text, '\n');
  const std::vector<std::string> words = Split(lines.empty() ? "" : lines[0], ' ');
  const auto version = words.empty() ? std::nullopt : Version::Read(words[0]);
  if (!version || lines.size() != 1 || words.size() > 2 || (words.size() == 2 && !IsDigest(words[1]))) {
    RefuseNewest(place, "holds no version");
  }
  return NewestVersion{*version, words.size() == 2 ? words[1] : ""};
}

// What was signed as this version, if it is still in use here.
std::string StatementInUse(const Place& place, const Version& version) {
  for (const char* link : {kCurrent, kPrevious}) {
    const auto release = Kept(place, place.Named(link));
    if (release && release->version == version) return release->statement;
  }
  return "";
}

}  // namespace

std::optional<NewestVersion> ReadNewest(const Place& place, const State& state) {
  std::optional<NewestVersion> newest = ReadNewestFile(place);
  const auto before = state.newest ? Version::Read(*state.newest) : std::nullopt;
  if (!newest && !before && state.lost) RefuseNewest(place, "is missing, and the state beside it cannot be read");
  // Where edge-rt 0.1.0 was at work, the state may know of a newer one.
  if (before && (!newest || newest->version < *before)) newest = NewestVersion{*before, StatementInUse(place, *before)};
  return newest;
}

void KeepNewest(const Place& place, const State& state, const NewestVersion& newest) {
  const auto before = ReadNewest(place, state), kept = ReadNewestFile(place);
  const NewestVersion& now = before && newest.version < before->version ? *before : newest;
  if (kept && kept->version == now.version && kept->statement == now.statement) return;
  Replace(NewestPath(place), Cat({now.version.text(), " ", now.statement, "\n"}), "newest");
  SyncFolder(place.folder, "grown");
}

}  // namespace edge::field
