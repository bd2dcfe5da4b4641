#include "cuda/launch.h"

#include <string_view>
#include <vector>

#include "cuda/graph.h"
#include "text.h"

namespace edge::cuda {
namespace {

struct Request {
  const KernelForm& form;
  Shape shape;
  uint64_t asked;  // bytes of shared memory, beside the kernel's own

  std::string Text() const {
    return Cat({"kernel ", form.name, ", ", shape.Text("blocks", "threads")});
  }
};

[[noreturn]] void Refuse(const Gpu& gpu, const Request& request, const std::string& why, const char* cause) {
  Fail(Cat({request.Text(), ": ", why, "; ", Describe(gpu.device)}), cause);
}

// "at most 64 threads along axis z".
std::string AtMost(uint64_t most, const char* what, int axis) {
  return Cat({"at most ", most, " ", what, " along axis ", std::string_view("xyz").substr(axis, 1)});
}

// What the driver would refuse without saying which of its limits it was.
void CheckLimits(const Gpu& gpu, const Kernel& kernel, const Request& request) {
  const CuDevice& device = gpu.device;
  for (int axis = 0; axis < Shape::kAxes; ++axis) {
    if (request.shape.items[axis] > device.block[axis]) {
      Refuse(gpu, request, "a block has " + AtMost(device.block[axis], "threads", axis), kTooLargeGroup);
    }
    if (request.shape.groups[axis] > device.grid[axis]) {
      Refuse(gpu, request, "there are " + AtMost(device.grid[axis], "blocks", axis), nullptr);
    }
  }
  const size_t threads = request.shape.ItemsOfGroup();
  if (threads > device.threads) {
    Refuse(gpu, request, Cat({"a block has at most ", device.threads, " threads"}), kTooLargeGroup);
  }
  if (kernel.threads != 0 && threads > kernel.threads) {
    Refuse(gpu, request,
           Cat({"with the ", kernel.registers, " registers of each thread a block has at most ", kernel.threads}),
           kTooManyRegisters);
  }
  if (request.asked > device.shared_most || kernel.shared + request.asked > device.shared_most) {
    Refuse(gpu, request,
           Cat({"it needs ", kernel.shared + request.asked, " bytes of shared memory, a block has at most ",
                device.shared_most}),
           kTooMuchShared);
  }
}

// More than a block has anyway must be announced.
void AskForShared(Gpu& gpu, Kernel& kernel, const Request& request) {
  if (kernel.shared + request.asked <= gpu.device.shared || request.asked <= kernel.asked) return;
  gpu.Check("cuFuncSetAttribute",
            gpu.cu.cuFuncSetAttribute(kernel.function, kFunctionMaxDynamic, static_cast<int>(request.asked)),
            request.Text());
  kernel.asked = request.asked;
}

}  // namespace

int& CurrentDevice() {
  thread_local int device = 0;
  return device;
}

void Launch(Gpu& gpu, const std::shared_ptr<LoadedUnits>& units, Kernel& kernel, const KernelForm& form,
            const tvm::ffi::AnyView* arguments, int count) {
  if (static_cast<size_t>(count) != form.arguments()) {
    Fail(Cat({"kernel ", form.name, " takes ", Counted(static_cast<int64_t>(form.arguments()), "argument"), ", not ", count}));
  }
  Request request{form, ShapeOf(form, arguments + form.types.size(), kLanguage), 0};
  if (request.shape.Empty()) return;
  if (form.asks_shared) request.asked = static_cast<uint64_t>(arguments[count - 1].cast<int64_t>());
  CheckLimits(gpu, kernel, request);
  gpu.Enter();
  AskForShared(gpu, kernel, request);
  std::vector<uint64_t> bits(form.types.size());
  std::vector<void*> places(form.types.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = ArgumentBits(form.types[i], arguments[i]);
    places[i] = &bits[i];
  }
  Capture* capture = CurrentCapture();
  const auto extent = [](size_t size) { return static_cast<unsigned>(size); };
  const auto &grid = request.shape.groups, &block = request.shape.items;
  const CUresult code = gpu.cu.cuLaunchKernel(
      kernel.function, extent(grid[0]), extent(grid[1]), extent(grid[2]), extent(block[0]), extent(block[1]),
      extent(block[2]), extent(request.asked), capture == nullptr ? gpu.stream : capture->stream(), places.data(),
      nullptr);
  if (code == kLaunchOutOfResources) {
    Refuse(gpu, request,
           Cat({"cuLaunchKernel says ", gpu.cu.ErrorName(code), ": its blocks need more registers or memory than there are"}),
           kTooManyRegisters);
  }
  gpu.Check("cuLaunchKernel", code, code == kSuccess ? "" : request.Text());
  if (capture != nullptr) {
    capture->Keep(units);
  } else {
    gpu.Begun("kernel " + form.name);
  }
}

}  // namespace edge::cuda
