#include "opencl/devices.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "device.h"
#include "text.h"

namespace edge::opencl {
namespace {

// The loader of drivers, and Mali's driver where a vendor's image has no loader.
constexpr const char* kFiles[] = {"libOpenCL.so.1", "libOpenCL.so", "libmali.so.1", "libmali.so"};
constexpr cl_uint kMostPlatforms = 16, kMostDevices = 64;

std::string Text(const Driver& driver, cl_device id, DeviceInfo what) {
  size_t bytes = 0;
  if (driver.clGetDeviceInfo(id, what, 0, nullptr, &bytes) != kSuccess || bytes == 0) return "";
  std::string text(bytes, '\0');
  if (driver.clGetDeviceInfo(id, what, bytes, text.data(), nullptr) != kSuccess) return "";
  text.resize(text.find('\0') == text.npos ? bytes : text.find('\0'));
  return text;
}

std::string PlatformText(const Driver& driver, cl_platform platform, PlatformInfo what) {
  char text[256] = {};
  const cl_int code = driver.clGetPlatformInfo(platform, what, sizeof text - 1, text, nullptr);
  return code == kSuccess ? text : "";
}

ClDevice Describe(const Driver& driver, cl_platform platform, cl_device id) {
  ClDevice device{};
  device.driver = &driver;
  device.id = id;
  device.name = Text(driver, id, kName);
  device.driver_version = Text(driver, id, kDriverVersion);
  device.version = Text(driver, id, kVersion);
  device.platform =
      PlatformText(driver, platform, kPlatformName) + ", " + PlatformText(driver, platform, kPlatformVersion);
  device.work_group = DeviceNumber(device, kWorkGroupSize, sizeof(size_t));
  driver.clGetDeviceInfo(id, kWorkItemSizes, sizeof device.work_items, device.work_items, nullptr);
  device.local_bytes = DeviceNumber(device, kLocalBytes, sizeof(uint64_t));
  device.global_bytes = DeviceNumber(device, kGlobalBytes, sizeof(uint64_t));
  device.most_allocated = DeviceNumber(device, kMostAllocated, sizeof(uint64_t));
  return device;
}

std::vector<ClDevice> DevicesOf(const Driver& driver, std::string* problem) {
  cl_platform platforms[kMostPlatforms];
  cl_uint platform_count = 0;
  cl_int code = driver.clGetPlatformIDs(kMostPlatforms, platforms, &platform_count);
  if (code != kSuccess) platform_count = 0;
  std::vector<ClDevice> gpus, others;
  for (cl_uint i = 0; i < std::min(platform_count, kMostPlatforms); ++i) {
    cl_device ids[kMostDevices];
    cl_uint count = 0;
    code = driver.clGetDeviceIDs(platforms[i], kTypeAll, kMostDevices, ids, &count);
    if (code != kSuccess) continue;
    for (cl_uint j = 0; j < std::min(count, kMostDevices); ++j) {
      ClDevice device = Describe(driver, platforms[i], ids[j]);
      if (DeviceNumber(device, kCompiler, sizeof(cl_uint)) == 0) continue;  // it takes no source
      const bool gpu = (DeviceNumber(device, kDeviceType, sizeof(cl_bits)) & kTypeGpu) != 0;
      (gpu ? gpus : others).push_back(std::move(device));
    }
  }
  gpus.insert(gpus.end(), others.begin(), others.end());
  if (gpus.empty()) {
    *problem = driver.file + " knows no device that compiles" +
               (code == kSuccess ? "" : " (" + ErrorName(code) + ")");
  }
  return gpus;
}

const char* TypeName(cl_bits type) {
  if ((type & kTypeGpu) != 0) return "gpu";
  if ((type & kTypeCpu) != 0) return "cpu";
  return (type & kTypeAccelerator) != 0 ? "accelerator" : "other";
}

Presence Probe() {
  Presence presence;
  for (const ClDevice& device : Devices(&presence.problem)) {
    presence.names.push_back(device.name);
    presence.details.push_back(Details(device));
  }
  return presence;
}

const RegisterDevice registered({"opencl", kDLOpenCL, Probe, true});

}  // namespace

const std::vector<ClDevice>& Devices(std::string* problem) {
  // Neither is ever deleted: at the end of the process a driver's own library may be gone already.
  static auto* mutex = new std::mutex;
  static auto* devices = new std::vector<ClDevice>;
  std::lock_guard<std::mutex> lock(*mutex);
  if (!devices->empty()) return *devices;
  // PoCL keeps files where HOME says, else in /tmp, under a name that anyone may have taken.
  if (const std::string folder = DeviceFolder(); !folder.empty()) {
    setenv("POCL_CACHE_DIR", (folder + "/pocl").c_str(), 0);
    // NVIDIA's binaries are PTX: what becomes of it at each start is kept below HOME, else nowhere.
    if (std::getenv("HOME") == nullptr) setenv("CUDA_CACHE_PATH", (folder + "/nvidia").c_str(), 0);
  }
  std::string problems;
  for (const char* file : kFiles) {
    std::string why;
    if (const auto driver = OpenDriver(file, &why)) {
      *devices = DevicesOf(*new Driver(*driver), &why);
      KeepOnly("opencl", devices, &why);
      if (!devices->empty()) return *devices;
    }
    problems += (problems.empty() ? "" : "; ") + why;
  }
  *problem = problems;
  return *devices;
}

uint64_t DeviceNumber(const ClDevice& device, DeviceInfo what, size_t bytes) {
  uint64_t number = 0;  // little-endian: its first bytes are a shorter number
  return device.driver->clGetDeviceInfo(device.id, what, bytes, &number, nullptr) == kSuccess ? number : 0;
}

std::string Details(const ClDevice& device) {
  const std::string extensions = Text(*device.driver, device.id, kExtensions);
  const std::vector<std::string> words = Split(extensions, ' ');
  const bool half = std::count(words.begin(), words.end(), "cl_khr_fp16") != 0;
  struct Number {
    const char* key;
    DeviceInfo what;
    size_t bytes;
  };
  static constexpr Number kNumbers[] = {
      {"compute_units", kComputeUnits, sizeof(cl_uint)},
      {"clock_mhz", kClockMhz, sizeof(cl_uint)},
      {"max_work_group", kWorkGroupSize, sizeof(size_t)},
      {"local_bytes", kLocalBytes, sizeof(uint64_t)},
      {"global_bytes", kGlobalBytes, sizeof(uint64_t)},
      {"max_alloc_bytes", kMostAllocated, sizeof(uint64_t)},
      {"cache_bytes", kCacheBytes, sizeof(uint64_t)},
      {"cache_line_bytes", kCacheLineBytes, sizeof(cl_uint)},
      {"float_lanes", kPreferredFloat, sizeof(cl_uint)},
      {"half_lanes", kPreferredHalf, sizeof(cl_uint)}};
  std::string numbers;
  for (const auto& [key, what, bytes] : kNumbers) {
    numbers += Cat({", \"", key, "\": ", DeviceNumber(device, what, bytes)});
  }
  const size_t* items = device.work_items;
  return Cat({"{\"name\": ", Quote(device.name), ", \"type\": \"",
              TypeName(DeviceNumber(device, kDeviceType, sizeof(cl_bits))),
              "\", \"vendor\": ", Quote(Text(*device.driver, device.id, kVendor)),
              ", \"version\": ", Quote(device.version), ", \"driver\": ", Quote(device.driver->file),
              ", \"driver_version\": ", Quote(device.driver_version), ", \"platform\": ", Quote(device.platform),
              numbers, ", \"max_work_items\": [", items[0], ", ", items[1], ", ", items[2],
              "], \"half\": ", half ? "true" : "false", "}"});
}

}  // namespace edge::opencl
