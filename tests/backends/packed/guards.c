// Calls generated functions on tensors between pages that must not be touched, on whatever it is compiled for.
//
//     guards CALLS RESULTS
//
// CALLS: per call the number of a function, its tensors, how many of these it writes (the last ones); of each
// tensor its type, its shape and its numbers. Every call is made twice: its tensors end, and begin, where no
// page can be read. RESULTS: the numbers written, of both. Ends with 0, or says what a function touched.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tvm/ffi/c_api.h>
#include <tvm/runtime/c_backend_api.h>
#include <unistd.h>

enum { kPage = 4096, kAligned = 64, kMost = 64, kCanary = 0x5a };

typedef int (*Function)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
extern const Function functions[];  // made with this program

// What generated code calls, where it does.
extern __attribute__((weak)) void* __TVMBackendParallelLaunch;
extern __attribute__((weak)) void* __TVMBackendAllocWorkspace;
extern __attribute__((weak)) void* __TVMBackendFreeWorkspace;

static volatile uint32_t running;  // number of the function
static volatile int at_end;

static void Die(const char* what) {
  char text[200];
  int size = snprintf(text, sizeof text, "function %u, tensors at the %s of their pages: %s\n", running,
                      at_end ? "end" : "start", what);
  if (write(2, text, size) < 0) abort();
  _exit(1);
}

static void OnFault(int number) { Die(number == SIGBUS ? "bus error" : "beyond a buffer"); }

typedef struct {
  uint8_t* pages;
  size_t inner, size;
  uint8_t* data;
} Guarded;

static Guarded Guard(size_t size) {
  Guarded made = {.size = size, .inner = (size + kAligned + kPage - 1) / kPage * kPage};
  made.pages = mmap(NULL, made.inner + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made.pages == MAP_FAILED) Die("no memory");
  if (mprotect(made.pages + kPage, made.inner, PROT_READ | PROT_WRITE)) Die("mprotect");
  memset(made.pages + kPage, kCanary, made.inner);
  size_t rounded = (size + kAligned - 1) / kAligned * kAligned;
  made.data = made.pages + kPage + (at_end ? made.inner - rounded : 0);
  return made;
}

// Whether what lies in the same pages beside the tensor is as it was.
static int Intact(const Guarded* guarded) {
  const uint8_t* first = guarded->pages + kPage;
  for (const uint8_t* at = first; at < first + guarded->inner; ++at) {
    if ((at < guarded->data || at >= guarded->data + guarded->size) && *at != kCanary) return 0;
  }
  return 1;
}

static void Release(Guarded* guarded) { munmap(guarded->pages, guarded->inner + 2 * kPage); }

static int Launch(FTVMParallelLambda function, void* data, int tasks) {
  if (tasks == 0) tasks = 3;  // so that the pieces have borders
  TVMParallelGroupEnv group = {.sync_handle = NULL, .num_task = tasks};
  for (int task = tasks - 1; task >= 0; --task) {
    if (function(task, &group, data)) return -1;
  }
  return 0;
}

static Guarded workspaces[kMost];

static void* Allocate(int device, int id, uint64_t size, int code, int bits) {
  (void)device, (void)id, (void)code, (void)bits;
  for (int place = 0; place < kMost; ++place) {
    if (workspaces[place].pages == NULL) {
      workspaces[place] = Guard(size);
      return workspaces[place].data;
    }
  }
  return NULL;
}

static int Free(int device, int id, void* data) {
  (void)device, (void)id;
  for (int place = 0; place < kMost; ++place) {
    if (workspaces[place].pages != NULL && workspaces[place].data == data) {
      if (!Intact(&workspaces[place])) Die("beyond a workspace");
      Release(&workspaces[place]);
      workspaces[place].pages = NULL;
      return 0;
    }
  }
  return -1;
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {
  fprintf(stderr, "%s: ", kind);
  for (int32_t part = 0; part < count; ++part) fputs(parts[part], stderr);
  fputc('\n', stderr);
}

static void Read(FILE* file, void* into, size_t size) {
  if (fread(into, 1, size, file) != size) Die("the calls are cut off");
}

typedef struct {
  uint32_t code, bits, rank, size;
  int64_t shape[8], strides[8];
  uint8_t* numbers;
  Guarded guarded;
  DLTensor tensor;
} Argument;

static void Call(Argument* arguments, uint32_t count, uint32_t outputs, FILE* results) {
  TVMFFIAny any[kMost];
  memset(any, 0, sizeof any);
  for (uint32_t place = 0; place < count; ++place) {
    Argument* each = &arguments[place];
    each->guarded = Guard(each->size);
    memcpy(each->guarded.data, each->numbers, each->size);
    each->tensor = (DLTensor){.data = each->guarded.data, .device = {kDLCPU, 0}, .ndim = each->rank,
                              .dtype = {each->code, each->bits, 1}, .shape = each->shape,
                              .strides = each->strides, .byte_offset = 0};
    any[place].type_index = kTVMFFIDLTensorPtr;
    any[place].v_ptr = &each->tensor;
  }
  TVMFFIAny result;
  memset(&result, 0, sizeof result);
  if (functions[running](NULL, any, count, &result)) Die("an error");
  for (uint32_t place = 0; place < count; ++place) {
    Argument* each = &arguments[place];
    if (!Intact(&each->guarded)) Die("written beside a tensor");
    if (place + outputs >= count) {
      fwrite(each->guarded.data, 1, each->size, results);
    } else if (memcmp(each->guarded.data, each->numbers, each->size)) {
      Die("an input is written");
    }
    Release(&each->guarded);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  struct sigaction action = {.sa_handler = OnFault};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  if (&__TVMBackendParallelLaunch) __TVMBackendParallelLaunch = Launch;
  if (&__TVMBackendAllocWorkspace) __TVMBackendAllocWorkspace = Allocate;
  if (&__TVMBackendFreeWorkspace) __TVMBackendFreeWorkspace = Free;
  FILE *calls = fopen(argv[1], "rb"), *results = fopen(argv[2], "wb");
  if (!calls || !results) return 2;
  uint32_t head[3];  // function, tensors, outputs
  static Argument arguments[kMost];
  while (fread(head, sizeof head, 1, calls) == 1) {
    running = head[0];
    if (head[1] > kMost) Die("too many tensors");
    for (uint32_t place = 0; place < head[1]; ++place) {
      Argument* each = &arguments[place];
      Read(calls, &each->code, 16);
      if (each->rank > 8) Die("too many axes");
      Read(calls, each->shape, 8 * each->rank);
      int64_t stride = 1;
      for (int axis = (int)each->rank - 1; axis >= 0; --axis) {
        each->strides[axis] = stride;
        stride *= each->shape[axis];
      }
      each->numbers = malloc(each->size + 1);
      Read(calls, each->numbers, each->size);
    }
    for (at_end = 1; at_end >= 0; --at_end) Call(arguments, head[1], head[2], results);
    for (uint32_t place = 0; place < head[1]; ++place) free(arguments[place].numbers);
  }
  return fclose(results) ? 2 : 0;
}
