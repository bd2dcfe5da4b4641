#include "tracker.h"

#include <unistd.h>

#include <cstdint>

#include "net.h"
#include "text.h"

namespace edge {

// tvm/rpc/base.py: RPC_TRACKER_MAGIC and class TrackerCode.
constexpr int32_t kTrackerMagic = 0x2F271;
constexpr int kPut = 3, kUpdateInfo = 5, kGetPendingMatchKeys = 7;
constexpr int32_t kMostBytes = 1 << 20;
constexpr int kPatienceMs = 2000;

void Tracker::Drop() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

bool Tracker::Ask(const std::string& message, std::string* answer) {
  int32_t size = 0;
  if (connected() && SendText(fd_, message) && ReceiveAll(fd_, &size, sizeof(size)) && size >= 0 &&
      size <= kMostBytes) {
    answer->resize(size);
    if (ReceiveAll(fd_, answer->data(), answer->size())) return true;
  }
  Drop();
  return false;
}

bool Tracker::Acknowledged(const std::string& message) {
  std::string answer;
  if (Ask(message, &answer) && answer == "0") return true;
  Drop();
  return false;
}

bool Tracker::Connect(const std::string& key, const std::string& host, int port) {
  Drop();
  fd_ = ConnectTo(host_, port_, kPatienceMs);
  int32_t magic = kTrackerMagic;
  if (!connected() || !SendAll(fd_, &magic, sizeof(magic)) ||
      !ReceiveAll(fd_, &magic, sizeof(magic)) || magic != kTrackerMagic) {
    Drop();
    return false;
  }
  return Acknowledged("[" + std::to_string(kUpdateInfo) + ", {\"key\": " + Quote("server:" + key) +
                      ", \"addr\": [" + Quote(host) + ", " + std::to_string(port) + "]}]");
}

bool Tracker::Put(const std::string& key, int port, const std::string& match_key) {
  // The tracker hands out the address that this connection comes from.
  return Acknowledged("[" + std::to_string(kPut) + ", " + Quote(key) + ", [" +
                      std::to_string(port) + ", " + Quote(match_key) + "], null]");
}

bool Tracker::Offers(const std::string& match_key) {
  std::string answer;
  return Ask("[" + std::to_string(kGetPendingMatchKeys) + "]", &answer) &&
         answer.find(Quote(match_key)) != answer.npos;
}

}  // namespace edge
