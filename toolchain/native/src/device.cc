#include "device.h"

#include <algorithm>
#include <mutex>
#include <utility>

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
  return {{name}, "", {}};
}

// Made when it is first asked for: files register in any order. A list: whoever has found a device points to its kind.
std::list<DeviceKind>& Kinds() {
  static std::list<DeviceKind> kinds(1, {"cpu", kDLCPU, ProbeCpu, false});
  return kinds;
}

// What this process was told of its devices. Threads may open networks at the same time.
struct Told {
  std::mutex mutex;
  std::string folder;
  bool keep = false;
  std::string only_kind;  // empty: all devices may be used
  size_t only_number = 0;
};

Told& ToldOfDevices() {
  static auto* told = new Told;
  return *told;
}

// A device's number in digits, of which at most four are read.
std::optional<size_t> ReadNumber(const std::string& digits) {
  const auto number = WholeNumber(digits, 9999);
  return number && digits.size() <= 4 ? std::optional(static_cast<size_t>(*number)) : std::nullopt;
}

// How the i-th device of a kind is asked for.
std::string NameOf(const DeviceKind& kind, const Presence& presence, size_t i) {
  if (i + presence.simulated >= presence.names.size()) return kind.name + (":" + presence.names[i]);
  return i == 0 ? kind.name : kind.name + (":" + std::to_string(i));
}

// What may be given in the place of a device that is not here. Drivers of other kinds than that are left
// alone: a broken one would keep a network from its own device.
std::vector<std::string> Here(const std::string& word) {
  std::vector<std::string> names;
  for (const DeviceKind& kind : Kinds()) {
    if (kind.driver && kind.name != word) continue;
    const Presence presence = kind.probe();
    for (size_t i = 0; i < presence.names.size(); ++i) names.push_back(NameOf(kind, presence, i));
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

Failure NoName(const std::string& name) {
  std::string kinds;
  for (const DeviceKind& kind : Kinds()) kinds += (kinds.empty() ? "" : ", ") + std::string(kind.name);
  return Usage("the device " + Quote(name) + ": give a kind, KIND:NUMBER or KIND:NAME; the kinds are " + kinds);
}

// A device's number, by what stands behind its kind: nothing, a number or a name.
size_t Number(const std::string& name, const DeviceKind& kind, const Presence& presence) {
  const size_t colon = name.find(':'), count = presence.names.size();
  const std::string which = colon == name.npos ? "" : name.substr(colon + 1);
  const auto named = std::find(presence.names.begin(), presence.names.end(), which);
  if (named != presence.names.end() && !which.empty()) return named - presence.names.begin();
  if (count == 0) throw Missing(name, presence.problem);
  const auto given = ReadNumber(which);
  if (colon != name.npos && !given) {
    if (presence.simulated != 0 && !which.empty()) {
      throw Missing(name, "of that kind there are others" + (presence.problem.empty() ? "" : ": " + presence.problem));
    }
    throw NoName(name);
  }
  const size_t number = given.value_or(0), real = count - presence.simulated;
  if (number < real) return number;
  if (real == 0) {
    throw Missing(name, presence.problem + "; a simulation is taken where its name is given: " + kind.name + ":" +
                            presence.names.back());
  }
  throw Missing(name, std::string("the last of that kind is ") + kind.name + ":" + std::to_string(real - 1));
}

thread_local std::string computes_on;
thread_local int without_graphs = 0;  // blocks that say so
thread_local long graphs_begun = 0;

}  // namespace

RegisterDevice::RegisterDevice(const DeviceKind& kind) { Kinds().push_back(kind); }

Found FindDevice(const std::string& name) {
  if (name.empty()) return {{kDLCPU, 0}, "cpu", &Kinds().front(), false};
  const std::string word = name.substr(0, name.find(':'));
  if (word.empty()) throw NoName(name);
  for (const DeviceKind& kind : Kinds()) {
    if (kind.name != word) continue;
    const Presence presence = kind.probe();
    const size_t number = Number(name, kind, presence);
    const bool simulated = number + presence.simulated >= presence.names.size();
    if (kind.type != kDLCPU) return {{kind.type, static_cast<int32_t>(number)}, name, &kind, simulated};
    // Kinds whose devices all compute in the host's memory are told apart by their names.
    return {{kDLCPU, 0}, presence.simulated == 0 ? word : word + ":" + presence.names[number], &kind, simulated};
  }
  throw Missing(name, "this edge-rt knows no such kind");
}

Computing::Computing(const std::string& name) : before_(std::exchange(computes_on, name)) {}

Computing::~Computing() { computes_on = std::move(before_); }

const std::string& ComputesOn() { return computes_on; }

WithoutGraphs::WithoutGraphs() { ++without_graphs; }

WithoutGraphs::~WithoutGraphs() { --without_graphs; }

bool UsesGraphs() { return without_graphs == 0; }

void CountGraph() { ++graphs_begun; }

long GraphsBegun() { return graphs_begun; }

const std::list<DeviceKind>& DeviceKinds() { return Kinds(); }

static std::string Known(const char* key, const std::optional<double>& value) {
  return Quote(key) + ": " + (value ? JsonNumber(*value) : "null");
}

std::string JsonModelled(const std::optional<Timed::Modelled>& modelled) {
  if (!modelled) return "null";
  return "{\"ms\": " + JsonNumber(static_cast<double>(modelled->cycles) / modelled->mhz / 1000) +
         ", \"cycles\": " + std::to_string(modelled->cycles) + ", \"mhz\": " + std::to_string(modelled->mhz) +
         ", \"version\": " + std::to_string(modelled->version) + "}";
}

std::string JsonConditions(const std::optional<Conditions>& conditions) {
  if (!conditions) return "null";
  return "{" + Known("clock_mhz", conditions->clock_mhz) + ", " + Known("temperature_c", conditions->temperature_c) +
         ", \"others\": " + (conditions->others ? std::to_string(*conditions->others) : "null") + "}";
}

std::optional<Conditions> ConditionsOf(DLDevice device) {
  for (const DeviceKind& kind : Kinds()) {
    if (kind.type == device.device_type && kind.conditions != nullptr) return kind.conditions(device.device_id);
  }
  return std::nullopt;
}

void UseOnly(const std::string& name) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon), digits = colon == name.npos ? "" : name.substr(colon + 1);
  const bool known = std::any_of(Kinds().begin(), Kinds().end(), [&](const DeviceKind& each) {
    return each.name == kind && each.type != kDLCPU;
  });
  const auto number = ReadNumber(digits);
  if (!known || !number) {
    throw Usage("--only-device " + Quote(name) + ": give KIND:NUMBER of a device with memory of its own");
  }
  const std::lock_guard lock(ToldOfDevices().mutex);
  ToldOfDevices().only_kind = kind;
  ToldOfDevices().only_number = *number;
}

std::optional<size_t> OnlyNumber(const std::string& kind) {
  const std::lock_guard lock(ToldOfDevices().mutex);
  const Told& told = ToldOfDevices();
  return told.only_kind == kind ? std::optional(told.only_number) : std::nullopt;
}

std::string JsonKind(const char* name, const Presence& presence) {
  std::string details;
  for (const std::string& each : presence.details) details += (details.empty() ? "" : ", ") + each;
  return "{\"kind\": " + Quote(name) + ", \"names\": " + JsonArray(presence.names) + ", \"problem\": " +
         (presence.names.size() == presence.simulated ? Quote(presence.problem) : "null") +
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

void SetDeviceFolder(const std::string& folder, bool keep) {
  const std::lock_guard lock(ToldOfDevices().mutex);
  ToldOfDevices().folder = folder;
  ToldOfDevices().keep = keep;
}

std::string DeviceFolder() {
  const std::lock_guard lock(ToldOfDevices().mutex);
  return ToldOfDevices().folder;
}

bool KeepsDeviceCode() {
  const std::lock_guard lock(ToldOfDevices().mutex);
  return ToldOfDevices().keep;
}

}  // namespace edge
