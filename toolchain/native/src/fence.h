// What a client may say in a session. TVM's endpoint believes every frame: it takes sizes, codes and
// addresses as they come, and obeys what only a server would say. A frame is checked here as a whole,
// before TVM's code sees any of it. (docs/decisions/0026)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "frame.h"
#include "handed.h"

namespace edge {

// The longest frame: the ring buffer's own limit (shim/support/ring_buffer.h). TVM's endpoint begins an answer
// before it knows that there is no room for it, and its client waits for the rest.
constexpr uint64_t kMostFrame = uint64_t{1} << 30;
// Of an answer, beside the bytes that it is about: lengths, codes, types.
constexpr uint64_t kAnswerHead = 4096;

class Fence {
 public:
  // The first words of a frame: how many bytes follow. Throws a Failure "refused", as Frame does.
  void Length(uint64_t bytes) const;
  // What follows: a code and what belongs to it. Takes back what the client gives back.
  void Frame(const void* data, size_t size);
  // What is sent as the answer, from its first byte on: keeps what it hands out.
  void Answer(const void* data, size_t size);

 private:
  // Checks a request to the system behind the session, and takes back what it frees.
  void System(RPCCode code, const std::vector<Value>& values);
  void Keep(RPCCode code, FrameReader answer);

  bool begun_ = false;  // the client has said its version
  int32_t code_ = 0;    // what the answer is to; 0: nothing
  uint64_t asked_ = 0;  // bytes of memory that were asked for
  Device where_{};      // and of which device
  Handed handed_;
};

}  // namespace edge
