// A libcuda.so.1 that computes nothing: it writes a byte to the file EDGE_LAUNCHES for each kernel that is launched.
// Memory is the host's; everything succeeds. The GPU that it pretends to be has compute capability 9.0.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static uintptr_t next_handle = 16;

static int give(void** handle) {
  *handle = (void*)(next_handle += 16);
  return 0;
}

API int cuInit(unsigned flags) { return 0 & flags; }
API int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
API int cuGetErrorName(int code, const char** name) { (void)code; *name = "CUDA_SUCCESS"; return 0; }
API int cuDeviceGetCount(int* count) { *count = 1; return 0; }
API int cuDeviceGet(int* device, int number) { *device = number; return 0; }
API int cuDeviceGetName(char* name, int size, int device) {
  (void)device;
  strncpy(name, "counting", (size_t)size);
  return 0;
}
API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 8: *value = 49152; break;                 // shared memory of a block
    case 97: case 81: *value = 232448; break;      // the same where asked for, and of a multiprocessor
    case 10: *value = 32; break;                   // threads of a warp
    case 12: *value = 65536; break;                // registers of a block
    case 16: *value = 132; break;                  // multiprocessors
    case 4: *value = 64; break;                    // threads along z
    case 5: *value = 2147483647; break;            // blocks along x
    case 6: case 7: *value = 65535; break;
    case 18: *value = 0; break;                    // integrated
    case 39: *value = 2048; break;                 // threads of a multiprocessor
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    default: *value = 1024;
  }
  return 0;
}
API int cuDeviceTotalMem_v2(size_t* bytes, int device) { (void)device; *bytes = (size_t)80 << 30; return 0; }
API int cuDeviceGetPCIBusId(char* id, int size, int device) {
  (void)device;
  strncpy(id, "0000:00:00.0", (size_t)size);
  return 0;
}
API int cuDevicePrimaryCtxRetain(void** context, int device) { (void)device; return give(context); }
API int cuCtxSetCurrent(void* context) { (void)context; return 0; }
API int cuMemGetInfo_v2(size_t* unused, size_t* total) { *unused = *total = (size_t)80 << 30; return 0; }
API int cuMemAlloc_v2(uintptr_t* memory, size_t bytes) {
  void* found = NULL;
  if (posix_memalign(&found, 256, bytes) != 0) return 2;
  *memory = (uintptr_t)found;
  return 0;
}
API int cuMemFree_v2(uintptr_t memory) { free((void*)memory); return 0; }
API int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  memcpy((void*)to, from, bytes);
  return 0;
}
API int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, void* stream) {
  (void)from, (void)stream;
  memset(to, 0, bytes);
  return 0;
}
API int cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, void* stream) {
  (void)to, (void)from, (void)bytes, (void)stream;
  return 0;
}
API int cuModuleLoadData(void** module, const void* image) { (void)image; return give(module); }
API int cuModuleUnload(void* module) { (void)module; return 0; }
API int cuModuleGetFunction(void** function, void* module, const char* name) {
  (void)module, (void)name;
  return give(function);
}
API int cuFuncGetAttribute(int* value, int attribute, void* function) {
  (void)function;
  *value = attribute == 0 ? 1024 : 0;
  return 0;
}
API int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return 0;
}
API int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared, void* stream, void** arguments,
                       void** extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z;
  (void)shared, (void)stream, (void)arguments, (void)extra;
  const char* file = getenv("EDGE_LAUNCHES");
  const int opened = file == NULL ? -1 : open(file, O_WRONLY | O_APPEND | O_CREAT, 0600);
  const int written = opened < 0 ? -1 : (int)write(opened, "k", 1);
  if (opened >= 0) close(opened);
  return written == 1 ? 0 : 999;
}
API int cuStreamCreate(void** stream, unsigned flags) { (void)flags; return give(stream); }
API int cuStreamDestroy_v2(void* stream) { (void)stream; return 0; }
API int cuStreamSynchronize(void* stream) { (void)stream; return 0; }
API int cuStreamBeginCapture_v2(void* stream, int mode) { (void)stream, (void)mode; return 0; }
API int cuStreamEndCapture(void* stream, void** graph) { (void)stream; return give(graph); }
API int cuEventCreate(void** event, unsigned flags) { (void)flags; return give(event); }
API int cuEventDestroy_v2(void* event) { (void)event; return 0; }
API int cuEventRecord(void* event, void* stream) { (void)event, (void)stream; return 0; }
API int cuEventSynchronize(void* event) { (void)event; return 0; }
API int cuEventElapsedTime(float* ms, void* begin, void* end) { (void)begin, (void)end; *ms = 1.0f; return 0; }
API int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
  (void)graph, (void)flags;
  return give(exec);
}
API int cuGraphLaunch(void* exec, void* stream) { (void)exec, (void)stream; return 0; }
API int cuGraphExecDestroy(void* exec) { (void)exec; return 0; }
API int cuGraphDestroy(void* graph) { (void)graph; return 0; }
