#include "opencl/launch.h"

#include <cstdint>

#include "opencl/workspace.h"
#include "text.h"

namespace edge::opencl {
namespace {

// A driver may hold back what is begun until somebody waits for it. The first kernel after a wait is handed
// to the device at once, so that it works while the host begins the others; then so many at a time, as each
// time may be a call into the system. TensorFlow Lite's number for Mali.
constexpr unsigned kHandedOver = 24;

constexpr const char* kGroups = "groups";
constexpr const char* kItems = "work items";

[[noreturn]] void Refuse(const Queue& queue, const KernelCode& code, const Shape& shape,
                         const std::string& why, const char* cause = nullptr) {
  Fail(Cat({"kernel ", code.name, " cannot be begun with ", shape.Text(kGroups, kItems), ": ", why, "; device ",
            queue.device.name, ", driver ", queue.device.driver_version}),
       cause);
}

// What the driver would refuse without saying which of its limits it was.
void CheckShape(const Queue& queue, const Kernel& kernel, const KernelCode& code, const Shape& shape) {
  const ClDevice& device = queue.device;
  for (int axis = 0; axis < Shape::kAxes; ++axis) {
    if (shape.items[axis] > device.work_items[axis]) {
      Refuse(queue, code, shape,
             Cat({"the device takes at most ", device.work_items[axis], " along axis ",
                  std::string_view("xyz").substr(axis, 1), " of a work group"}),
             kTooLargeGroup);
    }
  }
  if (shape.ItemsOfGroup() > device.work_group) {
    Refuse(queue, code, shape,
           "the work group is too large, the device takes at most " + std::to_string(device.work_group),
           kTooLargeGroup);
  }
  if (kernel.local_bytes > device.local_bytes) {
    Refuse(queue, code, shape,
           Cat({"the kernel needs ", kernel.local_bytes, " bytes of local memory, the device has ",
                device.local_bytes}));
  }
}

[[noreturn]] void FailLaunch(const Queue& queue, const Kernel& kernel, const KernelCode& code,
                             const Shape& shape, cl_int error) {
  // Only now: NVIDIA's driver names 256 items for every kernel, and takes up to 1024 where registers last.
  if ((error == kNoResources || error == kWrongGroup) && kernel.work_group != 0 &&
      shape.ItemsOfGroup() > kernel.work_group) {
    Refuse(queue, code, shape,
           "the kernel needs too many registers, with which a work group has at most " +
               std::to_string(kernel.work_group) + " work items",
           kTooManyRegisters);
  }
  std::string about = "kernel " + code.name + ", " + shape.Text(kGroups, kItems);
  if (error == kNoMemory) {
    about += ": the memory that it uses is not to be had, the device has " + Mib(queue.device.global_bytes) +
             " in all";
  }
  FailCall("clEnqueueNDRangeKernel", error, about, queue.device);
}

// A kernel keeps its arguments from launch to launch. It does not keep memory: that is set anew once any
// was freed, as the same handle may be other memory then.
cl_int SetArgument(Queue& queue, Kernel& kernel, size_t index, const DLDataType& type,
                   const tvm::ffi::AnyView& value) {
  Argument& last = kernel.arguments[index];
  const bool memory = type.code == kDLOpaqueHandle;
  const uint64_t bits = ArgumentBits(type, value), freed = memory ? FreedCount() : 0;
  if (last.set && last.bits == bits && last.freed == freed) return kSuccess;
  const auto* handle = reinterpret_cast<const void*>(static_cast<uintptr_t>(bits));
  const cl_mem object = memory && handle != nullptr ? ObjectOf(queue, handle) : nullptr;
  const void* at = memory ? static_cast<const void*>(&object) : &bits;
  last.set = false;
  const cl_int code = queue.cl.clSetKernelArg(kernel.kernel, static_cast<cl_uint>(index),
                                              memory ? sizeof(cl_mem) : type.bits / 8, at);
  last = {bits, freed, code == kSuccess};
  return code;
}

}  // namespace

int& CurrentDevice() {
  thread_local int device = 0;
  return device;
}

void Launch(Queue& queue, Kernel& kernel, const KernelCode& code, const tvm::ffi::AnyView* arguments,
            int count) {
  if (static_cast<size_t>(count) != code.arguments()) {
    Fail(Cat({"kernel ", code.name, " takes ", Counted(static_cast<int64_t>(code.arguments()), "argument"), ", not ", count}));
  }
  const Shape shape = ShapeOf(code, arguments + code.types.size(), kLanguage);
  if (shape.Empty()) return;
  CheckShape(queue, kernel, code, shape);
  size_t all[Shape::kAxes];  // work items
  for (int axis = 0; axis < Shape::kAxes; ++axis) {
    if (__builtin_mul_overflow(shape.groups[axis], shape.items[axis], &all[axis])) {
      Refuse(queue, code, shape, "more work items than can be counted");
    }
  }
  kernel.arguments.resize(code.types.size());
  for (size_t i = 0; i < code.types.size(); ++i) {
    const cl_int error = SetArgument(queue, kernel, i, code.types[i], arguments[i]);
    if (error != kSuccess) {
      FailCall("clSetKernelArg", error, "argument " + std::to_string(i) + " of kernel " + code.name,
               queue.device);
    }
  }
  const auto begin = [&] {
    return queue.cl.clEnqueueNDRangeKernel(queue.queue, kernel.kernel, Shape::kAxes, nullptr, all, shape.items,
                                           0, nullptr, nullptr);
  };
  cl_int error = begin();
  // NVIDIA's driver looks for a buffer's memory when a kernel first uses it. What lies idle may be what is
  // missing, and is given back when the kernels that use it are done.
  if (error == kNoMemory && WorkspacesOf(queue.number).Drop()) {
    Finish(queue);
    error = begin();
  }
  if (error != kSuccess) FailLaunch(queue, kernel, code, shape, error);
  queue.Begun(code.name);
  if (queue.since_wait++ % kHandedOver != 0) return;
  const cl_int flushed = queue.cl.clFlush(queue.queue);
  if (flushed != kSuccess) FailCall("clFlush", flushed, "kernel " + code.name, queue.device);
}

}  // namespace edge::opencl
