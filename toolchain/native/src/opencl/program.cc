#include "opencl/program.h"

#include <algorithm>

#include "device.h"
#include "failure.h"
#include "folder.h"
#include "opencl/cache.h"

namespace edge::opencl {
namespace {

// None: arithmetic as the source has it, and the newest OpenCL C 1 that the driver knows.
constexpr const char* kOptions = "";
constexpr size_t kMostLog = 64 << 10, kMostTold = 16 << 20;  // what is said of it; what is asked for

// Where binaries are kept; "" for nowhere.
std::string CacheFolder() {
  const std::string devices = DeviceFolder();
  if (devices.empty() || !KeepsDeviceCode()) return "";
  const std::string folder = devices + "/opencl";
  try {
    MakeInside(devices);
    MakeInside(folder);
  } catch (const Failure&) {
    return "";  // a full disk, or somebody else's folder: without it, all is compiled
  }
  return folder;
}

// Whatever the compiler's result depends on.
std::string KeyOf(const Queue& queue, const KernelCode& code) {
  const ClDevice& device = queue.device;
  std::string key;
  for (const std::string& part : {device.name, device.version, device.driver_version, device.platform,
                                  std::string(kOptions), code.name, code.source}) {
    key += std::to_string(part.size()) + " " + part + "\n";
  }
  return key;
}

std::string BuildLog(const Queue& queue, cl_program program) {
  size_t bytes = 0;
  queue.cl.clGetProgramBuildInfo(program, queue.device.id, kBuildLog, 0, nullptr, &bytes);
  // Into a buffer that is too small nothing is written.
  if (bytes > kMostTold) return "its log has " + std::to_string(bytes) + " bytes";
  std::string log(bytes, '\0');
  if (bytes == 0 || queue.cl.clGetProgramBuildInfo(program, queue.device.id, kBuildLog, bytes, log.data(),
                                                   nullptr) != kSuccess) {
    return "it has no log";
  }
  log.resize(std::min(log.find('\0'), bytes));
  if (log.size() > kMostLog) {
    const std::string more = std::to_string(log.size() - kMostLog);
    log.resize(kMostLog);
    log += "\nand " + more + " bytes more";
  }
  return log.empty() ? "its log is empty" : "its log:\n" + log;
}

Kernel Describe(const Queue& queue, cl_kernel kernel) {
  const auto number = [&](KernelInfo what, size_t bytes) {
    uint64_t value = 0;
    const cl_int code = queue.cl.clGetKernelWorkGroupInfo(kernel, queue.device.id, what, bytes, &value, nullptr);
    return code == kSuccess ? value : 0;
  };
  return {kernel, static_cast<size_t>(number(kKernelWorkGroup, sizeof(size_t))),
          number(kKernelLocal, sizeof(uint64_t))};
}

// Nothing where the driver doesn't take it: of another version, or damaged in a way that no digest shows.
cl_kernel FromBinary(Queue& queue, const std::string& binary, const std::string& name) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  cl_int taken = kSuccess, code = kSuccess;
  const cl_program program = queue.cl.clCreateProgramWithBinary(queue.context, 1, &queue.device.id, &size,
                                                                &bytes, &taken, &code);
  if (program == nullptr) return nullptr;
  cl_kernel kernel = nullptr;
  if (taken == kSuccess && code == kSuccess &&
      queue.cl.clBuildProgram(program, 1, &queue.device.id, kOptions, nullptr, nullptr) == kSuccess) {
    kernel = queue.cl.clCreateKernel(program, name.c_str(), &code);
    if (code != kSuccess) kernel = nullptr;
  }
  queue.cl.clReleaseProgram(program);  // the kernel keeps it
  return kernel;
}

// Of a program for one device; "" where the driver gives none.
std::string BinaryOf(const Queue& queue, cl_program program) {
  size_t size = 0;
  if (queue.cl.clGetProgramInfo(program, kBinarySizes, sizeof size, &size, nullptr) != kSuccess || size == 0) {
    return "";
  }
  std::string binary(size, '\0');
  char* bytes = binary.data();
  const cl_int code = queue.cl.clGetProgramInfo(program, kBinaries, sizeof bytes, static_cast<void*>(&bytes), nullptr);
  return code == kSuccess ? binary : "";
}

// The program stays the caller's.
cl_program Build(Queue& queue, const KernelCode& code) {
  const char* text = code.source.c_str();
  const size_t size = code.source.size();
  cl_int error = kSuccess;
  const cl_program program = queue.cl.clCreateProgramWithSource(queue.context, 1, &text, &size, &error);
  if (error != kSuccess || program == nullptr) {
    FailCall("clCreateProgramWithSource", error, "kernel " + code.name, queue.device);
  }
  error = queue.cl.clBuildProgram(program, 1, &queue.device.id, kOptions, nullptr, nullptr);
  if (error == kSuccess) return program;
  const std::string log = BuildLog(queue, program);
  queue.cl.clReleaseProgram(program);
  FailCall("clBuildProgram", error, "kernel " + code.name + " does not compile, " + log, queue.device,
           kDoesNotBuild);
}

}  // namespace

Kernel Compile(Queue& queue, const KernelCode& code) {
  const std::string folder = CacheFolder(), key = KeyOf(queue, code);
  if (!folder.empty()) {
    if (const auto binary = KeptBinary(folder, key)) {
      if (const cl_kernel kernel = FromBinary(queue, *binary, code.name)) return Describe(queue, kernel);
    }
  }
  const cl_program program = Build(queue, code);
  cl_int error = kSuccess;
  const cl_kernel kernel = queue.cl.clCreateKernel(program, code.name.c_str(), &error);
  if (error == kSuccess && kernel != nullptr && !folder.empty()) {
    // Only now: Arm's driver compiles when the kernel is made, and what it gave out before was not compiled.
    const std::string binary = BinaryOf(queue, program);
    if (!binary.empty()) KeepBinary(folder, key, binary);
  }
  queue.cl.clReleaseProgram(program);  // the kernel keeps it
  if (error != kSuccess || kernel == nullptr) {
    FailCall("clCreateKernel", error, "kernel " + code.name, queue.device);
  }
  return Describe(queue, kernel);
}

}  // namespace edge::opencl
