#include "cause.h"

#include <tvm/ffi/error.h>

#include <string_view>

namespace edge {
namespace {

constexpr std::string_view kBegin = "[cause ", kEnd = "] ";

}  // namespace

void ThrowFor(const std::string& cause, const std::string& message) {
  TVM_FFI_THROW(RuntimeError) << kBegin << cause << kEnd << message;
}

std::string TakeCause(std::string* message) {
  if (!message->starts_with(kBegin)) return "";
  const size_t end = message->find(kEnd, kBegin.size());
  if (end == message->npos) return "";
  const std::string cause = message->substr(kBegin.size(), end - kBegin.size());
  message->erase(0, end + kEnd.size());
  return cause;
}

}  // namespace edge
