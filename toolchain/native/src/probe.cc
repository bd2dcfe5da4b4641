#include "probe.h"

#include <cstring>

#include "apart.h"
#include "device.h"
#include "text.h"

namespace edge {
namespace {

constexpr size_t kMostAnswer = 256 << 10;

std::string Answer(const DeviceKind& kind) {
  try {
    return JsonKind(kind.name, kind.probe());
  } catch (const std::exception& error) {
    return JsonKind(kind.name, {{}, error.what(), {}});
  }
}

std::string Ask(const DeviceKind& kind, double seconds) {
  const Ended ended = RunApart([&] { return Answer(kind); }, seconds, kMostAnswer);
  if (ended.in_time && ended.signal == 0 && ended.answer.ends_with("}")) return ended.answer;
  const std::string why =
      !ended.in_time      ? "its driver did not answer within " + JsonNumber(seconds) + " s"
      : ended.signal != 0 ? std::string("its driver ended the process that asked it: ") + strsignal(ended.signal)
                          : "its driver ended the process that asked it";
  return JsonKind(kind.name, {{}, why, {}});
}

}  // namespace

std::string JsonDevicesApart(double seconds) {
  std::string list;
  for (const DeviceKind& kind : DeviceKinds()) {
    list += (list.empty() ? "" : ", ") +
            (kind.driver ? Ask(kind, seconds) : JsonKind(kind.name, kind.probe()));
  }
  return "[" + list + "]";
}

}  // namespace edge
