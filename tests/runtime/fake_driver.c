/* An OpenCL driver that computes nothing and notes what it is asked (FAKE_LOG): of a GPU that compiles when a
 * kernel is made, as Arm's driver does. FAKE_DRIVER is its version, FAKE_GROUP how many work items a group of any
 * kernel may have by its words (FAKE_TAKES: truly), FAKE_BUFFERS how many buffers there may be, FAKE_LAZY how many
 * when a kernel is begun, as with a driver that looks for their memory then, FAKE_FAIL the call that fails,
 * FAKE_TOLD the bytes of its compiler's log; FAKE_DEVICES=0: it has none. With FAKE_CRASH it crashes in a program
 * that runs exit handlers. Buffers that were freed are made again in the same place: a kernel that still has one is
 * noted. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

typedef struct Memory {
  uint32_t magic;
  unsigned life; /* of how many buffers in this place it is */
  size_t bytes;
  char* data;
  struct Memory* next; /* free place */
} Memory;
typedef struct {
  int made; /* a kernel was: it is compiled */
  Memory* memory[8];
  unsigned lives[8];
} Program;

static int device, platform, context, queue, begun, buffers;
static const uint32_t kMemory = 0x4d454d21;
static Memory* freed;

static const char* setting(const char* name, const char* otherwise) {
  const char* value = getenv(name);
  return value ? value : otherwise;
}

static int fails(const char* call) { return strcmp(setting("FAKE_FAIL", ""), call) == 0; }

static void note(const char* words) {
  FILE* log = fopen(setting("FAKE_LOG", "/dev/null"), "a");
  if (!log) return;
  fprintf(log, "%s\n", words);
  fclose(log);
}

__attribute__((destructor)) static void ends(void) {
  if (*setting("FAKE_CRASH", "")) raise(SIGSEGV);
}

static int give(const void* value, size_t bytes, size_t most, void* to, size_t* size) {
  if (size) *size = bytes;
  if (!to) return 0;
  if (most < bytes) return -30;
  memcpy(to, value, bytes);
  return 0;
}

static int text(const char* words, size_t most, void* to, size_t* size) {
  return give(words, strlen(words) + 1, most, to, size);
}

API int clGetPlatformIDs(unsigned most, void** platforms, unsigned* count) {
  if (most && platforms) platforms[0] = &platform;
  if (count) *count = 1;
  return 0;
}

API int clGetPlatformInfo(void* of, unsigned what, size_t most, void* to, size_t* size) {
  return text(what == 0x0901 ? "OpenCL 1.2 v1" : "ARM Platform", most, to, size);
}

API int clGetDeviceIDs(void* of, uint64_t type, unsigned most, void** devices, unsigned* count) {
  const int none = strcmp(setting("FAKE_DEVICES", "1"), "0") == 0;
  if (most && devices) devices[0] = &device;
  if (count) *count = !none;
  return none ? -1 : 0;
}

API int clGetDeviceInfo(void* of, unsigned what, size_t most, void* to, size_t* size) {
  const size_t items[] = {256, 256, 256};
  uint64_t number = 0;
  switch (what) {
    case 0x102b: return text("Mali-T860", most, to, size);
    case 0x102c: return text("ARM", most, to, size);
    case 0x102d: return text(setting("FAKE_DRIVER", "1.2"), most, to, size);
    case 0x102f: return text("OpenCL 1.2 v1.r14p0", most, to, size);
    case 0x1030: return text("cl_khr_fp64 cl_khr_fp16 cl_khr_icd", most, to, size);
    case 0x1005: return give(items, sizeof items, most, to, size);
    case 0x1000: number = 4; break;
    case 0x1002: number = 4; break;
    case 0x1004: number = 256; break;
    case 0x100a: number = 4; break;
    case 0x100c: number = 800; break;
    case 0x1010: number = 1u << 29; break;
    case 0x101d: number = 64; break;
    case 0x101e: number = 1u << 18; break;
    case 0x101f: number = 1u << 31; break;
    case 0x1023: number = 32768; break;
    case 0x1028: number = 1; break;
    case 0x1034: number = 8; break;
    default: return -30;
  }
  return give(&number, most < sizeof number ? most : sizeof number, most, to, size);
}

API void* clCreateContext(const intptr_t* p, unsigned n, void* const* d, void* f, void* u, int* code) {
  *code = fails("clCreateContext") ? -6 : 0;
  note("context");
  note(setting("CUDA_CACHE_PATH", "no CUDA_CACHE_PATH"));
  return *code ? NULL : &context;
}

API int clReleaseContext(void* of) { return 0; }

API void* clCreateCommandQueue(void* c, void* d, uint64_t properties, int* code) {
  *code = 0;
  return &queue;
}

API void* clCreateBuffer(void* c, uint64_t flags, size_t bytes, void* host, int* code) {
  *code = fails("clCreateBuffer") || buffers >= atoi(setting("FAKE_BUFFERS", "1000")) ? -4 : 0;
  note(*code ? "buffer refused" : "buffer");
  if (*code) return NULL;
  ++buffers;
  Memory* memory = freed ? freed : calloc(1, sizeof *memory);
  if (freed) freed = freed->next;
  *memory = (Memory){kMemory, memory->life + 1, bytes, calloc(1, bytes), NULL};
  return memory;
}

API int clReleaseMemObject(void* of) {
  Memory* memory = of;
  --buffers;
  memory->magic = 0;
  free(memory->data);
  memory->next = freed;
  freed = memory;
  return 0;
}

API int clEnqueueReadBuffer(void* q, void* of, unsigned wait, size_t at, size_t bytes, void* to, unsigned n,
                            const void* list, void* event) {
  memcpy(to, ((Memory*)of)->data + at, bytes);
  return 0;
}

API int clEnqueueWriteBuffer(void* q, void* of, unsigned wait, size_t at, size_t bytes, const void* from,
                             unsigned n, const void* list, void* event) {
  memcpy(((Memory*)of)->data + at, from, bytes);
  return 0;
}

API int clEnqueueCopyBuffer(void* q, void* from, void* to, size_t at, size_t to_at, size_t bytes, unsigned n,
                            const void* list, void* event) {
  memcpy(((Memory*)to)->data + to_at, ((Memory*)from)->data + at, bytes);
  return 0;
}

API int clEnqueueNDRangeKernel(void* q, void* kernel, unsigned axes, const size_t* offset, const size_t* all,
                               const size_t* items, unsigned n, const void* list, void* event) {
  if (buffers > atoi(setting("FAKE_LAZY", "1000"))) {
    note("launch refused");
    return -4;
  }
  if (items[0] * items[1] * items[2] > strtoul(setting("FAKE_TAKES", setting("FAKE_GROUP", "256")), NULL, 10)) {
    return -5;
  }
  note("launch");
  for (int i = 0; i < 8; ++i) {
    const Memory* memory = ((Program*)kernel)->memory[i];
    if (memory && (memory->magic != kMemory || memory->life != ((Program*)kernel)->lives[i])) {
      note("an argument that was freed");
    }
  }
  begun = 1;
  return fails("clEnqueueNDRangeKernel") ? -5 : 0;
}

API int clFlush(void* q) {
  note("flush");
  return 0;
}

API int clFinish(void* q) { return fails("clFinish") && begun ? -14 : 0; }

API void* clCreateProgramWithSource(void* c, unsigned n, const char** texts, const size_t* sizes, int* code) {
  *code = 0;
  note("source");
  return calloc(1, sizeof(Program));
}

API void* clCreateProgramWithBinary(void* c, unsigned n, void* const* d, const size_t* sizes,
                                    const unsigned char** binaries, int* taken, int* code) {
  *code = fails("clCreateProgramWithBinary") || sizes[0] != 8 || memcmp(binaries[0], "compiled", 8) ? -42 : 0;
  *taken = *code;
  note(*code ? "binary refused" : "binary");
  return *code ? NULL : calloc(1, sizeof(Program));
}

API int clBuildProgram(void* program, unsigned n, void* const* d, const char* options, void* f, void* u) {
  return fails("clBuildProgram") ? -11 : 0;
}

API int clGetProgramInfo(void* of, unsigned what, size_t most, void* to, size_t* size) {
  const char* binary = ((Program*)of)->made ? "compiled" : "not yet!";
  const size_t bytes = 8;
  if (what == 0x1165) return give(&bytes, sizeof bytes, most, to, size);
  memcpy(*(void**)to, binary, bytes);
  return 0;
}

API int clGetProgramBuildInfo(void* p, void* d, unsigned what, size_t most, void* to, size_t* size) {
  const size_t bytes = strtoul(setting("FAKE_TOLD", "0"), NULL, 10);
  char* words = calloc(1, bytes + 1);
  memset(words, 'w', bytes);
  const int code = text(words, most, to, size);
  free(words);
  return code;
}

API int clReleaseProgram(void* of) { return 0; }

API void* clCreateKernel(void* program, const char* name, int* code) {
  *code = 0;
  ((Program*)program)->made = 1;
  return program;
}

API int clReleaseKernel(void* of) { return 0; }

API int clGetKernelWorkGroupInfo(void* k, void* d, unsigned what, size_t most, void* to, size_t* size) {
  const uint64_t number = what == 0x11b0 ? strtoul(setting("FAKE_GROUP", "256"), NULL, 10) : 0;
  return give(&number, most, most, to, size);
}

API int clSetKernelArg(void* kernel, unsigned index, size_t bytes, const void* value) {
  note("argument");
  if (bytes == sizeof(void*) && index < 8 && (*(Memory**)value)->magic == kMemory) {
    Program* of = kernel;
    of->memory[index] = *(Memory**)value;
    of->lives[index] = of->memory[index]->life;
    return 0;
  }
  note("an argument that is no memory");
  return -50;
}
