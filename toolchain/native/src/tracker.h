// The connection to TVM's RPC tracker: an int32 length, then JSON, both ways.
#pragma once

#include <string>

#include "file.h"
#include "net.h"

namespace edge {

class Tracker {
 public:
  // `any_peer`: it may belong to anybody.
  Tracker(std::string host, int port, bool any_peer)
      : host_(std::move(host)), port_(port), any_peer_(any_peer) {}

  std::string address() const {
    const bool v6 = host_.find(':') != host_.npos;
    return (v6 ? "[" + host_ + "]" : host_) + ":" + std::to_string(port_);
  }
  int fd() const { return fd_.get(); }
  bool connected() const { return fd_.get() >= 0; }
  void Drop() { fd_.Close(); }

  // What Connect says: who we are, and what proves it later.
  void Introduce(const std::string& key, const std::string& host, int port, const std::string& secret);
  // False, and disconnected, when the tracker hasn't answered as it should within two seconds, or
  // when it is a stranger's.
  bool Connect();
  // Why the last attempt failed.
  std::string WhyNot() const;
  bool Put(const std::string& key, int port, const std::string& match_key);
  // Whether the match key is still on offer; false as well after a failure (then disconnected).
  bool Offers(const std::string& match_key);

 private:
  bool Ask(const std::string& message, Deadline until, std::string* answer);
  bool Acknowledged(const std::string& message, Deadline until);

  std::string host_;
  int port_;
  bool any_peer_;
  std::string introduction_, stranger_;
  Fd fd_;
};

}  // namespace edge
