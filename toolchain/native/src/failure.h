// The one way in which anything here fails.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace edge {

// `code` is the exit code (edge_status); `members` more JSON for the error document, beginning
// with a comma.
struct Failure : std::runtime_error {
  Failure(int status, std::string reason, const std::string& message, std::string more = "")
      : std::runtime_error(message), code(status), kind(std::move(reason)), members(std::move(more)) {}

  bool Is(std::string_view other) const { return kind == other; }

  int code;
  std::string kind;
  std::string members;
};

// The kinds by which a caller decides what to do next; of all others it only tells.
inline constexpr char kDamaged[] = "damaged", kFolder[] = "folder", kIo[] = "io", kLinkBroke[] = "link", kNoSpace[] = "space",
                      kTrust[] = "trust", kResumed[] = "resumed", kStopped[] = "stopped";

inline constexpr const char* kNoMemory = "there is not enough memory";

Failure Usage(const std::string& message);
// Adds what errno says.
Failure Io(const std::string& what);

}  // namespace edge
