#include "field/version.h"

#include <algorithm>

namespace edge::field {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// Of numbers that do not begin with 0: the longer is the larger.
std::strong_ordering CompareNumbers(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() <=> b.size() : a.compare(b) <=> 0;
}

std::strong_ordering CompareIdentifiers(const std::string& a, const std::string& b) {
  if (IsNumber(a) && IsNumber(b)) return CompareNumbers(a, b);
  if (IsNumber(a) != IsNumber(b)) return IsNumber(a) ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.compare(b) <=> 0;
}

// The identifiers between points; nothing if one is empty, has other characters, or is a number that begins with 0.
std::optional<std::vector<std::string>> Identifiers(std::string_view text) {
  std::vector<std::string> identifiers;
  for (;;) {
    const size_t end = std::min(text.find('.'), text.size());
    const std::string_view one = text.substr(0, end);
    const bool known = one.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-") == one.npos;
    if (one.empty() || !known || (IsNumber(one) && one.size() > 1 && one[0] == '0')) return std::nullopt;
    identifiers.emplace_back(one);
    if (end == text.size()) return identifiers;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<Version> Version::Read(std::string_view text) {
  if (text.size() > kMostVersion) return std::nullopt;
  Version version;
  version.text_ = text;
  const size_t dash = text.find('-');
  if (dash != text.npos) {
    auto identifiers = Identifiers(text.substr(dash + 1));
    if (!identifiers) return std::nullopt;
    version.pre_release_ = *std::move(identifiers);
  }
  auto numbers = Identifiers(text.substr(0, dash));
  if (!numbers || numbers->size() != 3 || !std::all_of(numbers->begin(), numbers->end(), IsNumber)) return std::nullopt;
  version.numbers_ = *std::move(numbers);
  return version;
}

std::strong_ordering Version::operator<=>(const Version& other) const {
  const auto order = std::lexicographical_compare_three_way(
      numbers_.begin(), numbers_.end(), other.numbers_.begin(), other.numbers_.end(), CompareNumbers);
  if (order != 0) return order;
  // A version comes after its own pre-releases.
  if (pre_release_.empty() != other.pre_release_.empty()) {
    return pre_release_.empty() ? std::strong_ordering::greater : std::strong_ordering::less;
  }
  return std::lexicographical_compare_three_way(pre_release_.begin(), pre_release_.end(), other.pre_release_.begin(),
                                                other.pre_release_.end(), CompareIdentifiers);
}

}  // namespace edge::field
