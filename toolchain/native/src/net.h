// TCP with deadlines.
#pragma once

#include <cstddef>
#include <string>

namespace edge {

// A file descriptor, or -1. Numeric addresses and names; waits at most `ms`.
int ConnectTo(const std::string& host, int port, int ms);
// Throws. Port 0 takes a free one and stores it.
int ListenOn(const std::string& host, int* port);
bool SendAll(int fd, const void* data, size_t size);
bool ReceiveAll(int fd, void* data, size_t size);
bool SendText(int fd, const std::string& text);

}  // namespace edge
