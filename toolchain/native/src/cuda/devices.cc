#include "cuda/devices.h"

#include <algorithm>
#include <mutex>

#include "cuda/conditions.h"
#include "device.h"
#include "text.h"

namespace edge::cuda {
namespace {

constexpr int kMostText = 256;

CuDevice Look(const Driver& driver, CUdevice id) {
  CuDevice device{};
  device.driver = &driver;
  device.id = id;
  char name[kMostText] = {};
  if (driver.cuDeviceGetName(name, sizeof name - 1, id) == kSuccess) device.name = name;
  if (device.name.empty()) device.name = "a GPU without a name";
  size_t bytes = 0;
  if (driver.cuDeviceTotalMem_v2(&bytes, id) == kSuccess) device.global_bytes = bytes;
  device.major = static_cast<int>(DeviceNumber(device, kCapabilityMajor));
  device.minor = static_cast<int>(DeviceNumber(device, kCapabilityMinor));
  device.threads = DeviceNumber(device, kMaxThreadsPerBlock);
  for (int axis = 0; axis < 3; ++axis) {
    device.block[axis] = DeviceNumber(device, static_cast<CUdevice_attribute>(kMaxBlockX + axis));
    device.grid[axis] = DeviceNumber(device, static_cast<CUdevice_attribute>(kMaxGridX + axis));
  }
  device.shared = DeviceNumber(device, kSharedPerBlock);
  device.shared_most = std::max(device.shared, DeviceNumber(device, kSharedPerBlockOptin));
  return device;
}

std::vector<CuDevice> DevicesOf(const Driver& driver, std::string* problem) {
  int count = 0;
  CUresult code = driver.cuDeviceGetCount(&count);
  std::vector<CuDevice> devices;
  for (int number = 0; code == kSuccess && number < count; ++number) {
    CUdevice id = 0;
    code = driver.cuDeviceGet(&id, number);
    if (code == kSuccess) devices.push_back(Look(driver, id));
  }
  if (code != kSuccess) devices.clear();
  if (devices.empty()) {
    *problem = driver.file + " finds no GPU";
    if (code != kSuccess) *problem += ": it says " + driver.ErrorName(code);
  }
  return devices;
}

Presence Probe() {
  Presence presence;
  for (const CuDevice& device : Devices(&presence.problem)) {
    presence.names.push_back(device.name);
    presence.details.push_back(Details(device));
  }
  return presence;
}

Conditions ConditionsOfNumber(int number) {
  std::string problem;
  const auto& devices = Devices(&problem);
  return number < 0 || static_cast<size_t>(number) >= devices.size() ? Conditions{} : ConditionsOf(devices[number]);
}

const RegisterDevice registered({.name = "cuda", .type = kDLCUDA, .probe = Probe, .driver = true, .conditions = ConditionsOfNumber});

}  // namespace

const std::vector<CuDevice>& Devices(std::string* problem) {
  // Neither is ever deleted: at the end of the process the driver's own library may be gone already.
  static auto* mutex = new std::mutex;
  static auto* devices = new std::vector<CuDevice>;
  const std::lock_guard lock(*mutex);
  if (!devices->empty()) return *devices;
  if (const auto driver = OpenDriver(problem)) {
    *devices = DevicesOf(*new Driver(*driver), problem);
    KeepOnly("cuda", devices, problem);
  }
  return *devices;
}

std::string PciId(const CuDevice& device) {
  char id[kMostText] = {};
  return device.driver->cuDeviceGetPCIBusId(id, sizeof id - 1, device.id) == kSuccess ? id : "";
}

uint64_t DeviceNumber(const CuDevice& device, CUdevice_attribute attribute) {
  int value = 0;
  const CUresult code = device.driver->cuDeviceGetAttribute(&value, attribute, device.id);
  return code == kSuccess && value > 0 ? static_cast<uint64_t>(value) : 0;
}

std::string ArchName(int arch) { return arch == 0 ? "emulated" : "sm_" + std::to_string(arch); }

std::string Describe(const CuDevice& device) {
  return Cat({device.name, " (", ArchName(device.arch()), "), driver for CUDA ", VersionText(device.driver->version)});
}

std::string Details(const CuDevice& device) {
  struct Number {
    const char* key;
    CUdevice_attribute attribute;
    int unit = 1;
  };
  static constexpr Number kDetails[] = {
      {"compute_units", kMultiprocessors},    {"clock_mhz", kClockKhz, 1000},
      {"memory_clock_mhz", kMemoryClockKhz, 1000}, {"memory_bus_bits", kMemoryBusBits},
      {"max_work_group", kMaxThreadsPerBlock}, {"unit_work_items", kThreadsPerMultiprocessor},
      {"subgroup", kWarpSize},                 {"group_registers", kRegistersPerBlock},
      {"local_bytes", kSharedPerBlock},        {"max_local_bytes", kSharedPerBlockOptin},
      {"unit_local_bytes", kSharedPerMultiprocessor}, {"cache_bytes", kL2Bytes}};
  std::string numbers;
  for (const auto& [key, attribute, unit] : kDetails) {
    numbers += Cat({", \"", key, "\": ", DeviceNumber(device, attribute) / unit});
  }
  const std::string version = VersionText(device.driver->version);
  // Arithmetic in float16 came with compute capability 5.3; the emulated driver has it, too.
  return Cat({"{\"name\": ", Quote(device.name), ", \"type\": \"", device.arch() == 0 ? "cpu" : "gpu",
              "\", \"vendor\": \"NVIDIA\", \"driver\": ", Quote(device.driver->file), ", \"driver_version\": \"", version,
              "\", \"platform\": \"CUDA ", version, "\", \"architecture\": ", device.arch(), ", \"pci\": ", Quote(PciId(device)),
              ", \"integrated\": ", DeviceNumber(device, kIntegrated) != 0 ? "true" : "false", numbers,
              ", \"max_work_items\": [", device.block[0], ", ", device.block[1], ", ", device.block[2],
              "], \"global_bytes\": ", device.global_bytes, ", \"half\": ", device.arch() == 0 || device.arch() >= 53 ? "true" : "false", "}"});
}

}  // namespace edge::cuda
