// Semantic versions (2.0.0) without build metadata, and their order.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace edge::field {

constexpr size_t kMostVersion = 64;  // characters

class Version {
 public:
  // Nothing for what is not such a version.
  static std::optional<Version> Read(std::string_view text);

  const std::string& text() const { return text_; }
  std::strong_ordering operator<=>(const Version& other) const;
  bool operator==(const Version& other) const { return text_ == other.text_; }

 private:
  std::string text_;
  std::vector<std::string> numbers_;  // major, minor, patch: digits
  std::vector<std::string> pre_release_;
};

}  // namespace edge::field
