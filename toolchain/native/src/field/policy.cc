#include "field/policy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "edge_rt.h"
#include "field/disk.h"
#include "json.h"
#include "text.h"

namespace edge::field {

namespace {

constexpr size_t kMostOwners = 16384;  // bytes

// A small file of the board's owner, which others must not write; none where it is missing.
std::optional<std::string> OwnersFile(const std::string& path, const char* why) {
  auto text = ReadSmall(path, kMostOwners);
  if (!text) return text;
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) ThrowDisk("cannot read ", path);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 || (status.st_uid != geteuid() && status.st_uid != 0)) {
    Throw(EDGE_REFUSED, "policy", {"others may write to ", path, ", which ", why, ": `chmod 644` it"});
  }
  return text;
}

}  // namespace

std::string NotedClass(const std::string& field) {
  const auto text = OwnersFile(field + "/.board.json", "says what this board is");
  if (!text) return "";
  const Json json = ReadJson(*text, "board.json");
  return Node(json, "board.json")["class"].Text(100);
}

Policy ReadPolicy(const Place& place) {
  Policy policy;
  const auto text = OwnersFile(place.Path("policy.json"), "names a command");
  if (!text) return policy;
  const Json json = ReadJson(*text, "policy");
  const Node node(json, "policy");
  node.AtMost("class health health_timeout_s health_tries downgrade keep");
  if (node.Has("class")) policy.board_class = node["class"].Text(100);
  if (node.Has("health")) {
    for (const Node& word : node["health"].List(0, 64)) policy.health.push_back(word.Text(4096));
  }
  if (node.Has("health_timeout_s")) policy.health_timeout_s = node["health_timeout_s"].Int(1, 3600);
  if (node.Has("health_tries")) policy.health_tries = node["health_tries"].Int(1, 100);
  if (node.Has("downgrade")) policy.downgrade = node["downgrade"].Bool();
  if (node.Has("keep")) policy.keep = node["keep"].Int(2, 1000);
  return policy;
}

}  // namespace edge::field
