#include "tracker.h"

#include <cstdint>

#include "peer.h"
#include "text.h"

namespace edge {

// tvm/rpc/base.py: RPC_TRACKER_MAGIC and class TrackerCode.
constexpr int32_t kTrackerMagic = 0x2F271;
constexpr int kPut = 3, kUpdateInfo = 5, kGetPendingMatchKeys = 7;
constexpr int32_t kMostBytes = 1 << 20;
constexpr auto kPatience = std::chrono::seconds(2);

static Deadline Patience() { return std::chrono::steady_clock::now() + kPatience; }

bool Tracker::Ask(const std::string& message, Deadline until, std::string* answer) {
  int32_t size = 0;
  if (connected() && SendText(fd_.get(), message, until) &&
      ReceiveAll(fd_.get(), &size, sizeof(size), until) && size >= 0 && size <= kMostBytes) {
    answer->resize(size);
    if (ReceiveAll(fd_.get(), answer->data(), answer->size(), until)) return true;
  }
  Drop();
  return false;
}

bool Tracker::Acknowledged(const std::string& message, Deadline until) {
  std::string answer;
  if (Ask(message, until, &answer) && answer == "0") return true;
  Drop();
  return false;
}

void Tracker::Introduce(const std::string& key, const std::string& host, int port,
                        const std::string& secret) {
  introduction_ = "[" + std::to_string(kUpdateInfo) + ", {\"key\": " + Quote("server:" + key) +
                  ", \"addr\": [" + Quote(host) + ", " + std::to_string(port) +
                  "], \"secret\": " + Quote(secret) + "}]";
}

bool Tracker::Connect() {
  Drop();
  const Deadline until = Patience();
  fd_ = Fd(ConnectTo(host_, port_, until));
  int32_t magic = kTrackerMagic;
  if (!connected() || !SendAll(fd_.get(), &magic, sizeof(magic), until) ||
      !ReceiveAll(fd_.get(), &magic, sizeof(magic), until) || magic != kTrackerMagic) {
    Drop();
    return false;
  }
  // Not before it has answered: a connection that nobody has accepted yet has no owner. Whoever
  // listens where our tracker was must not learn the secret.
  stranger_ = any_peer_ ? "" : Stranger(fd_.get()).value_or("");
  if (stranger_.empty()) return Acknowledged(introduction_, until);
  Drop();
  return false;
}

std::string Tracker::WhyNot() const {
  if (stranger_.empty()) return "no tracker answers at " + address();
  return "the tracker at " + address() + " is not ours but of " + stranger_ +
         "; --any-peer would trust it";
}

bool Tracker::Put(const std::string& key, int port, const std::string& match_key) {
  // The tracker hands out the address that this connection comes from.
  return Acknowledged("[" + std::to_string(kPut) + ", " + Quote(key) + ", [" +
                      std::to_string(port) + ", " + Quote(match_key) + "], null]",
                      Patience());
}

bool Tracker::Offers(const std::string& match_key) {
  std::string answer;
  return Ask("[" + std::to_string(kGetPendingMatchKeys) + "]", Patience(), &answer) &&
         answer.find(Quote(match_key)) != answer.npos;
}

}  // namespace edge
