// Why a device refuses a network's code, as a word that programs compare: the rows of toolchain/devices say what
// kind of failure each is. The other words of an error are for people, and may change.
#pragma once

#include <string>

namespace edge {

// Throws TVM's RuntimeError. Its message begins with the cause, "[cause work-group] ", as an RPC session carries
// nothing of an error but its message. A cause has at most 40 small letters and dashes.
[[noreturn]] void ThrowFor(const std::string& cause, const std::string& message);

// Removes the cause from the beginning of a message and returns it; "" where there is none.
std::string TakeCause(std::string* message);

}  // namespace edge
