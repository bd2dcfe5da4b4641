#include "machine.h"

#include <gnu/libc-version.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cpu.h"
#include "device.h"
#include "probe.h"
#include "queue.h"
#include "text.h"

namespace edge {

// Seconds for a driver to name its devices: under an emulator PoCL takes some.
constexpr double kDriverPatience = 20;

const char* Version() { return EDGE_RT_VERSION; }
const char* Fingerprint() { return EDGE_RT_FINGERPRINT; }
const char* TvmVersion() { return EDGE_RT_TVM; }
const char* TvmFfiVersion() { return EDGE_RT_TVM_FFI; }

std::string Arch() {
  const std::string triple = EDGE_RT_TRIPLE, arch = triple.substr(0, triple.find('-'));
  return arch == "arm" ? "armv7a" : arch;
}

std::string Governor() {
  auto governor = FirstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return governor ? Quote(*governor) : "null";
}

// The hottest zone that names the CPU, else the first zone; the kernel counts in 1/1000 degree.
std::string TemperatureC() {
  std::optional<double> hottest, first;
  for (int zone = 0; zone < 64; ++zone) {
    const std::string folder = "/sys/class/thermal/thermal_zone" + std::to_string(zone);
    auto type = FirstLine(folder + "/type"), value = FirstLine(folder + "/temp");
    if (!type) break;
    if (!value) continue;
    const auto milli = DecimalNumber(*value);
    if (!milli) continue;
    const double degrees = *milli / 1000;
    if (!first) first = degrees;
    for (const char* word : {"cpu", "soc", "pkg", "CPU"}) {
      if (type->find(word) != type->npos) hottest = std::max(hottest.value_or(degrees), degrees);
    }
  }
  if (!hottest) hottest = first;
  if (!hottest) return "null";
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", *hottest);
  return text;
}

// Of the folder or, where it doesn't exist yet, of what it would be made in.
static std::string FreeMib(std::string folder) {
  struct statvfs disk;
  while (statvfs(folder.c_str(), &disk) != 0) {
    const size_t slash = folder.rfind('/');
    if (slash == folder.npos || folder.size() <= 1) return "null";
    folder.resize(std::max<size_t>(slash, 1));
  }
  return std::to_string(static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize >> 20);
}

std::string Info(const std::string& state, const std::string& devices) {
  utsname system{};
  uname(&system);
  struct sysinfo memory{};
  sysinfo(&memory);
  const std::vector<Cpu> cpus = Cpus();
  std::string list;
  for (const Cpu& cpu : cpus) {
    list += (list.empty() ? "" : ", ") + ("{\"id\": " + std::to_string(cpu.id)) +
            ", \"core\": " + Quote(cpu.core) + "}";
  }
  return "{\"version\": " + Quote(Version()) + ", \"fingerprint\": " + Quote(Fingerprint()) +
         ", \"tvm\": " + Quote(EDGE_RT_TVM) + ", \"tvm_ffi\": " + Quote(EDGE_RT_TVM_FFI) +
         ", \"triple\": " + Quote(EDGE_RT_TRIPLE) + ", \"machine\": " + Quote(system.machine) +
         ", \"glibc\": " + Quote(gnu_get_libc_version()) +
         ", \"cpu_features\": " + JsonArray(CpuFeatures()) + ", \"cpus\": [" + list +
         "], \"logical_cpus\": " + std::to_string(cpus.size()) +
         ", \"physical_cores\": " + std::to_string(PhysicalCores(cpus)) +
         ", \"devices\": " + devices +
         ", \"threads\": " + std::to_string(Place(0, "").threads) + ", \"memory_mib\": " +
         std::to_string(static_cast<uint64_t>(memory.totalram) * memory.mem_unit >> 20) +
         ", \"disk_free_mib\": " + FreeMib(state) + ", \"governor\": " + Governor() +
         ", \"temperature_c\": " + TemperatureC() + ", " + JsonQueue(state) + "}";
}

int InfoCommand(const Options& options) {
  options.NoMore();
  const double patience = options.Seconds("timeout", kDriverPatience);
  // Drivers write files of their own: the folder must be there, and closed to others.
  const std::string state = options.State(options.Has("devices"));
  std::string devices;
  if (options.Has("devices")) {
    SetDeviceFolder(state + "/devices", true);
    devices = JsonDevicesApart(patience);
  } else {
    devices = JsonDevices(false);
  }
  std::printf("%s\n", Info(state, devices).c_str());
  return 0;
}

}  // namespace edge
