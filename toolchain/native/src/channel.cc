#include "channel.h"

#include <rpc_channel.h>
#include <rpc_endpoint.h>
#include <sys/socket.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "failure.h"
#include "fence.h"
#include "net.h"

using tvm::ffi::Function;

namespace edge {
namespace {

constexpr auto kFarewell = std::chrono::milliseconds(300);

// TVM's endpoint reads the length of a frame, makes room for the frame, and asks for all of it: so
// it is checked where it will stay, and never copied.
class Fenced final : public tvm::runtime::RPCChannel {
 public:
  // `explain` is TVM's own way to send an exception.
  Fenced(int socket, Function explain) : socket_(socket), explain_(std::move(explain)) {}

  size_t Send(const void* data, size_t size) final {
    if (ended_) return size;  // the endpoint's goodbye
    if (std::exchange(answering_, false)) fence_.Answer(data, size);
    ssize_t sent;
    do {
      sent = send(socket_, data, size, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    // TVM's own kind of error: it may be thrown while the endpoint says goodbye.
    if (sent < 0) TVM_FFI_THROW(RuntimeError) << "cannot answer: " << std::strerror(errno);
    return static_cast<size_t>(sent);
  }

  size_t Recv(void* data, size_t size) final {
    if (!Receive(static_cast<char*>(data), size)) return 0;
    try {
      if (frame_ == 0) {
        if (size != sizeof(frame_)) throw Refused("an endpoint that does not begin with a length");
        std::memcpy(&frame_, data, sizeof(frame_));
        fence_.Length(frame_);
      } else {
        if (size != frame_) throw Refused("an endpoint that does not ask for a whole message");
        frame_ = 0;
        answering_ = true;
        fence_.Frame(data, size);
      }
    } catch (const Failure& refused) {
      End(refused);
      throw;
    }
    return size;
  }

 private:
  // False when the client has left.
  bool Receive(char* data, size_t size) const {
    for (size_t done = 0; done < size;) {
      const ssize_t n = recv(socket_, data + done, size - done, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) TVM_FFI_THROW(RuntimeError) << "cannot hear the client: " << std::strerror(errno);
      if (n == 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

  void End(const Failure& refused) {
    ended_ = true;
    std::fprintf(stderr, "edge-rt: session: %s\n", refused.what());
    explain_(socket_, std::string("edge-rt: ") + refused.what());
  }

  int socket_;
  Function explain_;
  Fence fence_;
  uint64_t frame_ = 0;  // bytes of the frame that comes next; 0: its length comes first
  bool answering_ = false;
  bool ended_ = false;
};

// A client may still be sending what was refused: unread bytes would throw away our words to it.
void Farewell(int socket) {
  shutdown(socket, SHUT_WR);
  const Deadline until = std::chrono::steady_clock::now() + kFarewell;
  char ignored[4096];
  while (ReceiveAll(socket, ignored, sizeof(ignored), until)) {
  }
}

}  // namespace

void ServeBehindFence(int socket) {
  const Function explain = Function::GetGlobalRequired("rpc.ReturnException");
  // Whoever called these would talk past the fence. The endpoint itself makes a LocalSession.
  for (const tvm::ffi::String& name : Function::ListGlobalNames()) {
    if (std::string(name).starts_with("rpc.") && name != "rpc.LocalSession") {
      Function::RemoveGlobal(name);
    }
  }
  try {
    tvm::runtime::RPCEndpoint::Create(std::make_unique<Fenced>(socket, explain), "edge-rt", "")
        ->ServerLoop();
  } catch (const Failure&) {
    Farewell(socket);
  }
}

}  // namespace edge
