// Compiled programs in files, for the next process. Nothing is believed of a file but that whoever may write
// into the folder may do so.
#pragma once

#include <optional>
#include <string>

namespace edge::opencl {

// `key` is all that the binary depends on. Nothing where there is no whole file for exactly that key.
std::optional<std::string> KeptBinary(const std::string& folder, const std::string& key);

// Keeps it, whole or not at all, and removes those that were used the longest time ago where there
// are too many. That it can't be kept is no failure: it is compiled again.
void KeepBinary(const std::string& folder, const std::string& key, const std::string& binary);

}  // namespace edge::opencl
