#include "device.h"

#include <algorithm>
#include <cstdlib>

#include "cpu.h"
#include "edge_rt.h"
#include "failure.h"
#include "text.h"

namespace edge {
namespace {

// One, whose name is that of its cores.
Presence ProbeCpu() {
  std::vector<std::string> cores;
  for (const Cpu& cpu : Cpus()) {
    if (std::count(cores.begin(), cores.end(), cpu.core) == 0) cores.push_back(cpu.core);
  }
  std::string name;
  for (const std::string& core : cores) name += (name.empty() ? "" : ", ") + core;
  return {{name}, ""};
}

// Made when it is first asked for: files register in any order.
std::vector<DeviceKind>& Kinds() {
  static std::vector<DeviceKind> kinds{{"cpu", kDLCPU, ProbeCpu, false}};
  return kinds;
}

struct Folder {
  std::string path;
  bool keep = false;
};

Folder& TheFolder() {
  static auto* folder = new Folder;
  return *folder;
}

// What may be given in the place of a device that is not here. Drivers of other kinds than that are left
// alone: a broken one would keep a network from its own device.
std::vector<std::string> Here(const std::string& word) {
  std::vector<std::string> names;
  for (const DeviceKind& kind : Kinds()) {
    const size_t count = kind.driver && kind.name != word ? 0 : kind.probe().names.size();
    for (size_t i = 0; i < count; ++i) {
      names.push_back(i == 0 ? kind.name : kind.name + (":" + std::to_string(i)));
    }
  }
  return names;
}

Failure Missing(const std::string& name, const std::string& why) {
  const std::vector<std::string> here = Here(name.substr(0, name.find(':')));
  std::string words;
  for (const std::string& device : here) words += (words.empty() ? "" : ", ") + device;
  return Failure(EDGE_REQUIRES, "device", "there is no device " + name + " here: " + why +
                                              "; here are: " + words,
                 ", \"missing\": " + JsonArray({name}) + ", \"devices\": " + JsonArray(here));
}

// The number behind a kind's name; 0 for none.
size_t Number(const std::string& name, size_t colon) {
  if (colon == name.npos) return 0;
  const std::string digits = name.substr(colon + 1);
  if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != digits.npos) {
    throw Usage("the device " + Quote(name) + ": give a kind, or a kind and a number as in opencl:0");
  }
  return std::strtoul(digits.c_str(), nullptr, 10);
}

}  // namespace

RegisterDevice::RegisterDevice(const DeviceKind& kind) { Kinds().push_back(kind); }

DLDevice FindDevice(const std::string& name) {
  if (name.empty()) return {kDLCPU, 0};
  const size_t colon = name.find(':'), number = Number(name, colon);
  const std::string word = name.substr(0, colon);
  for (const DeviceKind& kind : Kinds()) {
    if (kind.name != word) continue;
    const Presence presence = kind.probe();
    if (presence.names.empty()) throw Missing(name, presence.problem);
    if (number >= presence.names.size()) {
      throw Missing(name, "the last of that kind is " + word + ":" +
                              std::to_string(presence.names.size() - 1));
    }
    return {kind.type, kind.type == kDLCPU ? 0 : static_cast<int32_t>(number)};
  }
  throw Missing(name, "this edge-rt knows no such kind");
}

const std::vector<DeviceKind>& DeviceKinds() { return Kinds(); }

std::string JsonKind(const char* name, const Presence& presence) {
  std::string details;
  for (const std::string& each : presence.details) details += (details.empty() ? "" : ", ") + each;
  return "{\"kind\": " + Quote(name) + ", \"names\": " + JsonArray(presence.names) + ", \"problem\": " +
         (presence.names.empty() ? Quote(presence.problem) : "null") +
         (details.empty() ? "" : ", \"details\": [" + details + "]") + "}";
}

std::string JsonDevices(bool drivers) {
  std::string list;
  for (const DeviceKind& kind : Kinds()) {
    if (kind.driver && !drivers) continue;
    list += (list.empty() ? "" : ", ") + JsonKind(kind.name, kind.probe());
  }
  return "[" + list + "]";
}

void SetDeviceFolder(const std::string& folder, bool keep) { TheFolder() = {folder, keep}; }

const std::string& DeviceFolder() { return TheFolder().path; }

bool KeepsDeviceCode() { return TheFolder().keep; }

}  // namespace edge
