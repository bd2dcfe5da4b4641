#include "field/place.h"

#include <unistd.h>

#include "field/disk.h"

namespace edge::field {
namespace {

constexpr std::string_view kReleases = "releases/";
constexpr std::string_view kHex = "0123456789abcdef";

}  // namespace

std::optional<std::string> Place::Named(const char* link) const {
  char target[128];
  const ssize_t size = readlink(Path(link).c_str(), target, sizeof target);
  const std::string text(target, size < 0 ? 0 : size);
  if (!text.starts_with(kReleases) || !IsDigest(text.substr(kReleases.size()))) return std::nullopt;
  return text.substr(kReleases.size());
}

void Place::Name(const char* link, const std::optional<std::string>& release) const {
  if (Named(link) == release) return;
  if (release) return Point(Path(link), std::string(kReleases) + *release);
  Remove(Path(link));
}

void Place::Check() const { CheckFolders(folder, {"releases", "incoming"}); }

bool IsDigest(const std::string& text) { return text.size() == 64 && text.find_first_not_of(kHex) == text.npos; }

}  // namespace edge::field
