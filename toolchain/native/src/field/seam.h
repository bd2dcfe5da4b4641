// What the test program (tests/field) does to the installer. In edge-rt these do nothing.
#pragma once

#include <cstdint>
#include <ctime>

namespace edge::field {

#ifdef EDGE_FIELD_TEST
// Whether the fsync of this name is left out.
bool LeavesOut(const char* sync);
// Stops here if the test waits for this step.
void Reach(const char* step);
// Seconds since 1970.
int64_t Now();
#else
inline bool LeavesOut(const char*) { return false; }
inline void Reach(const char*) {}
inline int64_t Now() { return std::time(nullptr); }
#endif

}  // namespace edge::field
