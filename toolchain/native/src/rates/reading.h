// Memory that is read in order, by loads as wide as this CPU has.
#pragma once

#include <cstddef>

namespace edge::rates {

// Of a number of bytes that Read takes.
constexpr size_t kUnit = 1024;

using Read = void (*)(const char* from, size_t bytes);

// The architecture's folder in src/arch has it.
Read ReadHere();

}  // namespace edge::rates
