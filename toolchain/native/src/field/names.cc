#include "field/names.h"

#include <cstddef>

namespace edge::field {
namespace {

constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyz0123456789._-";
constexpr std::string_view kEmulated = "+emulated";
constexpr size_t kMost = 63;

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kMost && kFirst.find(name[0]) != kFirst.npos &&
         name.find_first_not_of(kAll) == name.npos;
}

}  // namespace

bool IsAppName(std::string_view name) {
  for (const char* file : {"lock", "trust.json", "trust.json.new"}) {
    if (name == file) return false;  // the board's own
  }
  return IsName(name);
}

bool IsClassName(std::string_view name) {
  if (name.ends_with(kEmulated)) name.remove_suffix(kEmulated.size());
  return IsName(name);
}

}  // namespace edge::field
