#include "opencl/queue.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cause.h"
#include "opencl/workspace.h"
#include "text.h"

namespace edge::opencl {
namespace {

constexpr cl_uint kBlocking = 1;

constexpr int kKnown = 64;  // devices whose queues are found without a lock

struct AllMemory {
  std::mutex mutex;
  std::unordered_map<const void*, std::unique_ptr<Memory>> pieces;
  std::atomic<uint64_t> freed = 1;
};

// Never deleted: kernels of a library may outlive main.
AllMemory& All() {
  static auto* all = new AllMemory;
  return *all;
}

Memory Piece(const Queue& queue, const void* handle, size_t offset, size_t bytes) {
  const Memory memory = MemoryOf(handle, queue.number);
  if (offset > memory.bytes || bytes > memory.bytes - offset) {
    Fail(Cat({bytes, " bytes at ", offset, " of memory that has ", memory.bytes}));
  }
  return memory;
}

}  // namespace

std::string Mib(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

void Fail(const std::string& words, const char* cause) {
  if (cause != nullptr) ThrowFor(cause, "OpenCL: " + words);
  TVM_FFI_THROW(RuntimeError) << "OpenCL: " << words;
}

void FailCall(const char* call, cl_int code, const std::string& about, const ClDevice& device,
              const char* cause) {
  Fail(Cat({call, " says ", ErrorName(code), about.empty() ? "" : ": ", about, "; device ", device.name, ", driver ",
            device.driver_version}),
       cause);
}

Queue::Queue(int which, const ClDevice& on) : number(which), device(on), cl(*device.driver) {
  cl_int code = kSuccess;
  context = cl.clCreateContext(nullptr, 1, &device.id, nullptr, nullptr, &code);
  if (code != kSuccess || context == nullptr) FailCall("clCreateContext", code, "", device);
  queue = cl.clCreateCommandQueue(context, device.id, 0, &code);
  if (code == kSuccess && queue != nullptr) return;
  cl.clReleaseContext(context);
  FailCall("clCreateCommandQueue", code, "", device);
}

Queue& QueueOf(int number) {
  static std::atomic<Queue*> known[kKnown];
  const bool few = number >= 0 && number < kKnown;
  if (Queue* queue = few ? known[number].load(std::memory_order_acquire) : nullptr) return *queue;
  static auto* mutex = new std::mutex;
  static auto* queues = new std::map<int, std::unique_ptr<Queue>>;
  std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<Queue>& queue = (*queues)[number];
  if (queue == nullptr) {
    std::string problem;
    const std::vector<ClDevice>& devices = Devices(&problem);
    if (number < 0 || number >= static_cast<int>(devices.size())) {
      Fail("there is no device " + std::to_string(number) + " here" +
           (devices.empty() ? ": " + problem : "; the last is " + std::to_string(devices.size() - 1)));
    }
    queue = std::make_unique<Queue>(number, devices[number]);
  }
  if (few) known[number].store(queue.get(), std::memory_order_release);
  return *queue;
}

void Queue::Begun(const std::string& name) {
  const std::lock_guard<std::mutex> lock(naming_);
  begun_ = name;
}

std::string Queue::LastBegun() {
  const std::lock_guard<std::mutex> lock(naming_);
  return begun_.empty() ? "" : "; the last kernel begun is " + begun_;
}

void* Allocate(int device, size_t bytes) {
  Queue& queue = QueueOf(device);
  cl_int code = kSuccess;
  const size_t wanted = std::max<size_t>(bytes, 1);  // OpenCL has no memory of no size
  const auto create = [&] {
    return queue.cl.clCreateBuffer(queue.context, kReadWrite, wanted, nullptr, &code);
  };
  cl_mem object = create();
  // What lies idle may be what is missing.
  if (code != kSuccess && WorkspacesOf(device).Drop()) object = create();
  if (code != kSuccess || object == nullptr) {
    FailCall("clCreateBuffer", code,
             Cat({Mib(wanted), " are not to be had; it has ", Mib(queue.device.global_bytes), ", at most ",
                  Mib(queue.device.most_allocated), " at once"}),
             queue.device);
  }
  auto memory = std::make_unique<Memory>(Memory{object, wanted, device});
  void* handle = memory.get();
  std::lock_guard<std::mutex> lock(All().mutex);
  All().pieces[handle] = std::move(memory);
  return handle;
}

void Free(void* handle) {
  std::unique_ptr<Memory> memory;
  {
    std::lock_guard<std::mutex> lock(All().mutex);
    const auto found = All().pieces.find(handle);
    if (found == All().pieces.end()) return;
    memory = std::move(found->second);
    All().pieces.erase(found);
    All().freed.fetch_add(1, std::memory_order_release);
  }
  // The driver keeps it until the kernels that were begun with it are done.
  QueueOf(memory->device).cl.clReleaseMemObject(memory->object);
}

Memory MemoryOf(const void* handle, int device) {
  std::lock_guard<std::mutex> lock(All().mutex);
  const auto found = All().pieces.find(handle);
  if (found == All().pieces.end() || found->second->device != device) {
    Fail("a tensor that lies elsewhere than in the memory of device " + std::to_string(device));
  }
  return *found->second;
}

uint64_t FreedCount() { return All().freed.load(std::memory_order_acquire); }

cl_mem ObjectOf(Queue& queue, const void* handle) {
  const uint64_t freed = FreedCount();
  Queue::Recent& recent = queue.recent[reinterpret_cast<uintptr_t>(handle) / 32 % std::size(queue.recent)];
  if (recent.handle != handle || recent.freed != freed) {
    recent = {handle, freed, MemoryOf(handle, queue.number).object};
  }
  return recent.object;
}

void Write(Queue& queue, const void* from, const void* handle, size_t offset, size_t bytes) {
  const Memory memory = Piece(queue, handle, offset, bytes);
  if (bytes == 0) return;
  queue.since_wait = 0;
  const cl_int code = queue.cl.clEnqueueWriteBuffer(queue.queue, memory.object, kBlocking, offset, bytes,
                                                    from, 0, nullptr, nullptr);
  if (code != kSuccess) {
    FailCall("clEnqueueWriteBuffer", code, std::to_string(bytes) + " bytes" + queue.LastBegun(), queue.device);
  }
}

void Read(Queue& queue, const void* handle, size_t offset, void* to, size_t bytes) {
  const Memory memory = Piece(queue, handle, offset, bytes);
  if (bytes == 0) return;
  queue.since_wait = 0;
  const cl_int code = queue.cl.clEnqueueReadBuffer(queue.queue, memory.object, kBlocking, offset, bytes,
                                                   to, 0, nullptr, nullptr);
  if (code != kSuccess) {
    FailCall("clEnqueueReadBuffer", code, std::to_string(bytes) + " bytes" + queue.LastBegun(), queue.device);
  }
}

void Copy(Queue& queue, const void* from, size_t from_offset, const void* to, size_t to_offset,
          size_t bytes) {
  const Memory source = Piece(queue, from, from_offset, bytes);
  const Memory target = Piece(queue, to, to_offset, bytes);
  if (bytes == 0) return;
  const cl_int code = queue.cl.clEnqueueCopyBuffer(queue.queue, source.object, target.object, from_offset,
                                                   to_offset, bytes, 0, nullptr, nullptr);
  if (code != kSuccess) {
    FailCall("clEnqueueCopyBuffer", code, std::to_string(bytes) + " bytes" + queue.LastBegun(), queue.device);
  }
}

void Finish(Queue& queue) {
  queue.since_wait = 0;
  const cl_int code = queue.cl.clFinish(queue.queue);
  if (code != kSuccess) FailCall("clFinish", code, "what was begun has failed" + queue.LastBegun(), queue.device);
}

}  // namespace edge::opencl
