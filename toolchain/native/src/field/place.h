// Where a board keeps its releases: the folder of docs/release-format.md.
#pragma once

#include <optional>
#include <string>

namespace edge::field {

constexpr const char* kCurrent = "current";
constexpr const char* kPrevious = "previous";

// The folder of one app. A release's name there is its bundle's digest or, where that folder has another statement of the same
// bundle, its own statement's.
class Place {
 public:
  Place(const std::string& field, const std::string& name) : app(name), folder(field + "/" + name) {}

  std::string Path(const std::string& name) const { return folder + "/" + name; }
  std::string Releases() const { return Path("releases"); }
  std::string Release(const std::string& name) const { return Releases() + "/" + name; }
  std::string Incoming() const { return Path("incoming"); }

  // The release that a link names; none where it is missing, or names something else.
  std::optional<std::string> Named(const char* link) const;
  // Points a link to a release, or removes it.
  void Name(const char* link, const std::optional<std::string>& release) const;
  // Throws EDGE_REFUSED, "folder", where others could change what is below.
  void Check() const;

  std::string app;
  std::string folder;
};

bool IsDigest(const std::string& text);

}  // namespace edge::field
