// What this machine is and how it feels.
#pragma once

#include <optional>
#include <string>

#include "options.h"

namespace edge {

// JSON values, "null" where unreadable.
std::string Governor();
std::string TemperatureC();
double PeakRssMib();

const char* Version();
const char* Fingerprint();

// The document of `edge-rt info`; `devices` is a JSON array.
std::string Info(const std::string& state, const std::string& devices);
int InfoCommand(const Options& options);

}  // namespace edge
