// The one way in which anything here fails.
#pragma once

#include <stdexcept>
#include <string>

namespace edge {

// `code` is the exit code (edge_status); `members` more JSON for the error document, beginning
// with a comma.
struct Failure : std::runtime_error {
  Failure(int status, std::string reason, const std::string& message, std::string more = "")
      : std::runtime_error(message), code(status), kind(std::move(reason)), members(std::move(more)) {}
  int code;
  std::string kind;
  std::string members;
};

inline constexpr const char* kNoMemory = "there is not enough memory";

Failure Usage(const std::string& message);
// Adds what errno says.
Failure Io(const std::string& what);

}  // namespace edge
