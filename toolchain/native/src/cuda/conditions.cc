#include "cuda/conditions.h"

#include <dirent.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>

#include "text.h"

namespace edge::cuda {
namespace {

constexpr const char* kNvmlFile = "libnvidia-ml.so.1";
constexpr int kClockSm = 1, kTemperatureGpu = 0;  // of nvml.h
constexpr unsigned kMostProcesses = 256;

using Handle = void*;
struct Process {  // nvmlProcessInfo_t, from its second version on
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};

struct Nvml {
  int (*init)() = nullptr;
  int (*handle)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*processes)(Handle, unsigned*, Process*) = nullptr;
};

template <typename Function>
void Find(void* library, const char* name, Function* function) {
  if (*function == nullptr) *function = reinterpret_cast<Function>(dlsym(library, name));
}

// Opened once, and never closed. Without it, or where it can't begin, `init` is null.
const Nvml& TheNvml() {
  static const Nvml opened = [] {
    Nvml nvml;
    const char* named = std::getenv("EDGE_NVML");
    void* library = dlopen(named == nullptr || *named == '\0' ? kNvmlFile : named, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nvml;
    Find(library, "nvmlInit_v2", &nvml.init);
    Find(library, "nvmlDeviceGetHandleByPciBusId_v2", &nvml.handle);
    Find(library, "nvmlDeviceGetClockInfo", &nvml.clock);
    Find(library, "nvmlDeviceGetTemperature", &nvml.temperature);
    Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes);
    Find(library, "nvmlDeviceGetComputeRunningProcesses_v2", &nvml.processes);
    if (nvml.init == nullptr || nvml.handle == nullptr || nvml.init() != 0) nvml.init = nullptr;
    return nvml;
  }();
  return opened;
}

Conditions Managed(const CuDevice& device) {
  Conditions found;
  const Nvml& nvml = TheNvml();
  Handle handle = nullptr;
  if (nvml.init == nullptr || nvml.handle(PciId(device).c_str(), &handle) != 0) return found;
  unsigned number = 0;
  if (nvml.clock != nullptr && nvml.clock(handle, kClockSm, &number) == 0) found.clock_mhz = number;
  if (nvml.temperature != nullptr && nvml.temperature(handle, kTemperatureGpu, &number) == 0) found.temperature_c = number;
  static Process processes[kMostProcesses];
  unsigned count = kMostProcesses;
  // One of them is this process, which has just computed there; in a container it may have another number.
  if (nvml.processes != nullptr && nvml.processes(handle, &count, processes) == 0 && count > 0) found.others = count - 1;
  return found;
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  DIR* opened = opendir(folder.c_str());
  if (opened == nullptr) return names;
  while (const dirent* entry = readdir(opened)) names.emplace_back(entry->d_name);
  closedir(opened);
  std::sort(names.begin(), names.end());
  return names;
}

bool NamesGpu(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find("gpu") != text.npos || text.find("ga10b") != text.npos || text.find("gv11b") != text.npos;
}

std::optional<double> Number(const std::string& file, double unit) {
  const auto line = FirstLine(file);
  const auto number = line ? DecimalNumber(*line) : std::nullopt;
  return number ? std::optional(*number / unit) : std::nullopt;
}

// Of a Jetson's Linux: thermal zones such as "gpu-thermal", and a clock in Hz such as 17000000.gpu's.
Conditions OfLinux() {
  Conditions found;
  for (const std::string& zone : Entries("/sys/class/thermal")) {
    const std::string folder = "/sys/class/thermal/" + zone;
    if (!found.temperature_c && NamesGpu(FirstLine(folder + "/type").value_or(""))) {
      found.temperature_c = Number(folder + "/temp", 1000);
    }
  }
  for (const std::string& name : Entries("/sys/class/devfreq")) {
    if (!found.clock_mhz && NamesGpu(name)) found.clock_mhz = Number("/sys/class/devfreq/" + name + "/cur_freq", 1e6);
  }
  return found;
}

}  // namespace

Conditions ConditionsOf(const CuDevice& device) {
  Conditions found = Managed(device);
  if (DeviceNumber(device, kIntegrated) != 0) {
    const Conditions read = OfLinux();
    if (!found.clock_mhz) found.clock_mhz = read.clock_mhz;
    if (!found.temperature_c) found.temperature_c = read.temperature_c;
  }
  return found;
}

}  // namespace edge::cuda
