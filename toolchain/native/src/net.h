// TCP with deadlines.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace edge {

using Deadline = std::chrono::steady_clock::time_point;

// A file descriptor that doesn't block, or -1. Numeric addresses and names.
int ConnectTo(const std::string& host, int port, Deadline until);
// Throws. Port 0 takes a free one and stores it.
int ListenOn(const std::string& host, int* port);
// False when not everything went, or came, in time; of the deadline the last byte counts.
bool SendAll(int fd, const void* data, size_t size, Deadline until);
bool ReceiveAll(int fd, void* data, size_t size, Deadline until);
bool SendText(int fd, const std::string& text, Deadline until);

}  // namespace edge
