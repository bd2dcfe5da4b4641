// The one way in which anything here fails.
#pragma once

#include <stdexcept>
#include <string>

namespace edge {

// `code` is the exit code (edge_status); `members` more JSON for the error document, beginning
// with a comma.
struct Failure : std::runtime_error {
  Failure(int code, std::string kind, const std::string& message, std::string members = "")
      : std::runtime_error(message), code(code), kind(std::move(kind)), members(std::move(members)) {}
  int code;
  std::string kind;
  std::string members;
};

inline constexpr const char* kNoMemory = "there is not enough memory";

Failure Usage(const std::string& message);
// Adds what errno says.
Failure Io(const std::string& what);

}  // namespace edge
