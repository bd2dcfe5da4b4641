#include "field/request.h"

#include "edge_rt.h"
#include "failure.h"
#include "field/envelope.h"
#include "field/names.h"
#include "json.h"
#include "text.h"

namespace edge::field {
namespace {

constexpr size_t kMostHeader = 4096;  // bytes
constexpr size_t kAttempt = 16;  // hexadecimal digits
constexpr size_t kMostTrusts = 256;
constexpr int64_t kMostTrustBytes = int64_t{16} << 20;  // of all
constexpr std::string_view kGreeting = "edge-release 1";

}  // namespace

Request ReadRequest(Stream* stream) {
  if (stream->Line(kGreeting.size()) != kGreeting) {
    Throw(EDGE_REFUSED, "stream", {"this is no release of format 1"});
  }
  const Json json = ReadJson(stream->Line(kMostHeader), "stream");
  const Node header(json, "stream");
  const bool numbered = header.Has("attempt");  // edge-rt 0.1.0 refuses it, and its hosts send none
  header.Exactly(numbered ? "app trust release newest downgrade class attempt" : "app trust release newest downgrade class");
  Request request;
  if (numbered) request.attempt = header["attempt"].Hex(kAttempt);
  request.app = header["app"].Text(63);
  if (!IsAppName(request.app)) header["app"].Refuse("is no name of an app");
  if (!header["newest"].IsNull()) {
    request.newest = Version::Read(header["newest"].Text(kMostVersion));
    if (!request.newest) header["newest"].Refuse("is no semantic version");
  }
  request.downgrade = header["downgrade"].Bool();
  if (!header["class"].IsNull()) request.board_class = header["class"].Text(100);
  std::vector<int64_t> sizes;
  int64_t all = 0;
  for (const Node& bytes : header["trust"].List(0, kMostTrusts)) {
    sizes.push_back(bytes.Int(1, kMostEnvelope));
    if ((all += sizes.back()) > kMostTrustBytes) bytes.Refuse("is too much");
  }
  const int64_t release = header["release"].Int(1, kMostEnvelope);
  for (const int64_t bytes : sizes) request.trust.push_back(stream->Bytes(bytes));
  request.release = stream->Bytes(release);
  return request;
}

}  // namespace edge::field
