// Text: splitting, small files, JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace edge {

// Empty pieces are dropped.
std::vector<std::string> Split(std::string_view text, char separator);
// The first line of a small file (sysfs), or nothing.
std::optional<std::string> FirstLine(const std::string& path);

std::string Quote(std::string_view text);
// Whether it is what Quote may have written.
bool IsQuoted(std::string_view text);
std::string JsonArray(const std::vector<std::string>& values);
std::string JsonArray(const std::vector<int>& values);
// Six digits after the point: nanoseconds for a number of milliseconds.
std::string JsonNumber(double value);

}  // namespace edge
