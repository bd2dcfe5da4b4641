// What this machine is and how it feels.
#pragma once

#include <optional>
#include <string>

#include "options.h"

namespace edge {

// JSON values, "null" where unreadable.
std::string Governor();
std::string TemperatureC();

const char* Version();
const char* Fingerprint();
// What a bundle's manifest must say: its TVM, and the architecture as LLVM names it.
const char* TvmVersion();
const char* TvmFfiVersion();
std::string Arch();

// The document of `edge-rt info`; `devices` is a JSON array.
std::string Info(const std::string& state, const std::string& devices);
int InfoCommand(const Options& options);

}  // namespace edge
