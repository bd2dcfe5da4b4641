/* Compiles OpenCL C for the Mali that $PAN_GPU_ID names, kernel after kernel, with Mesa's compiler; runs nothing.
 *
 *   mali-compiler LIBRUSTICL VERSION
 *
 * Says "mali-model VERSION\n" when it is ready. Then, until its input ends, it reads requests and answers each:
 *   request: "BYTES SECONDS\n" and BYTES of OpenCL C with one kernel, which has SECONDS to be compiled
 *   answer:  "WORD BYTES\n" and BYTES of what the compiler printed; WORD is ok, refused, late or died
 *
 * Most of what a kernel costs is the start of Mesa's OpenCL (over a second), so that is done once; each kernel is
 * compiled in a fork, which may panic, run for ever or use up its memory: the next one does not notice. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SOURCE = 1 << 26, MOST_PRINTED = 1 << 28, MEMORY_MIB = 3072 };

/* Without a loader of drivers every object brings the table of its functions. */
static cl_icd_dispatch *calls(void *object) { return *(cl_icd_dispatch **)object; }

static void fail(const char *what, int code) {
  fprintf(stderr, "mali-compiler: %s (%d)\n", what, code);
  fflush(NULL);
  _exit(1);
}

static cl_device_id first_device(const char *library) {
  void *driver = dlopen(library, RTLD_NOW);
  if (!driver) fail(dlerror(), 0);
  void *(*extension)(const char *) = (void *(*)(const char *))dlsym(driver, "clGetExtensionFunctionAddress");
  cl_int (*platforms)(cl_uint, cl_platform_id *, cl_uint *) =
      extension ? (cl_int(*)(cl_uint, cl_platform_id *, cl_uint *))extension("clIcdGetPlatformIDsKHR") : NULL;
  cl_platform_id platform;
  cl_device_id device;
  cl_uint count = 0;
  if (!platforms || platforms(1, &platform, &count) || !count) fail("no OpenCL platform", (int)count);
  cl_int error = calls(platform)->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, &count);
  if (error || !count) fail("no OpenCL device", error);
  return device;
}

/* Mesa makes the final code when a kernel is created. */
static void compile(cl_device_id device, const char *source, size_t length) {
  cl_int error;
  cl_context context = calls(device)->clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  if (error) fail("clCreateContext", error);
  cl_program program = calls(context)->clCreateProgramWithSource(context, 1, &source, &length, &error);
  if (error) fail("clCreateProgramWithSource", error);
  if ((error = calls(program)->clBuildProgram(program, 1, &device, "", NULL, NULL))) {
    static char log[1 << 16];
    calls(program)->clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    fail(log, error);
  }
  cl_kernel kernel;
  cl_uint count = 0;
  error = calls(program)->clCreateKernelsInProgram(program, 1, &kernel, &count);
  if (error || count != 1) fail("one kernel is wanted; clCreateKernelsInProgram", error ? error : (int)count);
  size_t group[3] = {0, 0, 0};
  calls(kernel)->clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof group, group, NULL);
  if (!group[0]) fail("the kernel has no reqd_work_group_size", 0);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Collects what a process prints until it ends; returns whether that was before the deadline. */
static int collect(int pipe, double deadline, char **printed, size_t *length) {
  size_t room = 0;
  for (*printed = NULL, *length = 0;;) {
    double left = deadline - now();
    struct pollfd wait = {.fd = pipe, .events = POLLIN};
    if (left <= 0 || *length == MOST_PRINTED) return 0;
    if (poll(&wait, 1, (int)(left * 1e3) + 1) <= 0) continue;
    if (*length == room && !(*printed = realloc(*printed, room = room ? 2 * room : 1 << 16))) fail("no memory", errno);
    ssize_t got = read(pipe, *printed + *length, room - *length);
    if (got <= 0) return 1;
    *length += (size_t)got;
  }
}

static const char *answer(cl_device_id device, const char *source, size_t length, double seconds, char **printed,
                          size_t *size) {
  int ends[2], status = 0;
  if (pipe(ends)) fail("pipe", errno);
  pid_t child = fork();
  if (child < 0) fail("fork", errno);
  if (!child) {
    struct rlimit memory = {(rlim_t)MEMORY_MIB << 20, (rlim_t)MEMORY_MIB << 20};
    setrlimit(RLIMIT_AS, &memory);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    compile(device, source, length);
    fflush(NULL);
    _exit(0);
  }
  close(ends[1]);
  int in_time = collect(ends[0], now() + seconds, printed, size);
  if (!in_time) kill(child, SIGKILL);
  close(ends[0]);
  waitpid(child, &status, 0);
  if (!in_time) return "late";
  return WIFSIGNALED(status) ? "died" : WEXITSTATUS(status) ? "refused" : "ok";
}

int main(int count, char **arguments) {
  if (count != 3) fail("usage: mali-compiler LIBRUSTICL VERSION", count);
  signal(SIGPIPE, SIG_IGN);
  FILE *out = fdopen(dup(1), "w");
  dup2(2, 1); /* what Mesa prints is no answer */
  cl_device_id device = first_device(arguments[1]);
  fprintf(out, "mali-model %s\n", arguments[2]);
  fflush(out);
  size_t length;
  double seconds;
  while (scanf("%zu %lf", &length, &seconds) == 2 && getchar() == '\n') {
    char *printed = NULL, *source = length <= MOST_SOURCE ? malloc(length + 1) : NULL;
    if (!source || fread(source, 1, length, stdin) != length) fail("a request that is none", errno);
    source[length] = 0;
    size_t size = 0;
    const char *word = answer(device, source, length, seconds, &printed, &size);
    fprintf(out, "%s %zu\n", word, size);
    fwrite(printed, 1, size, out);
    if (fflush(out)) return 1;
    free(printed);
    free(source);
  }
  return 0;
}
