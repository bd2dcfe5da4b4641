// The connection to TVM's RPC tracker: an int32 length, then JSON, both ways.
#pragma once

#include <string>

#include "net.h"

namespace edge {

class Tracker {
 public:
  Tracker(std::string host, int port) : host_(std::move(host)), port_(port) {}
  ~Tracker() { Drop(); }
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;

  std::string address() const {
    const bool v6 = host_.find(':') != host_.npos;
    return (v6 ? "[" + host_ + "]" : host_) + ":" + std::to_string(port_);
  }
  int fd() const { return fd_; }
  bool connected() const { return fd_ >= 0; }
  void Drop();

  // False, and disconnected, when the tracker hasn't answered as it should within two seconds.
  bool Connect(const std::string& key, const std::string& host, int port);
  bool Put(const std::string& key, int port, const std::string& match_key);
  // Whether the match key is still on offer; false as well after a failure (then disconnected).
  bool Offers(const std::string& match_key);

 private:
  bool Ask(const std::string& message, Deadline until, std::string* answer);
  bool Acknowledged(const std::string& message, Deadline until);

  std::string host_;
  int port_;
  int fd_ = -1;
};

}  // namespace edge
