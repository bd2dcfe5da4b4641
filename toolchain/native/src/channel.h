// TVM's endpoint on a socket, behind the fence.
#pragma once

namespace edge {

// Serves until the client leaves, or says what is refused: then it has been told, and so has stderr.
void ServeBehindFence(int socket);

}  // namespace edge
