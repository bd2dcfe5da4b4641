/* The launches of the network in chain.py by a plain OpenCL program: what they cost at least with this driver.
 * chain SOURCE KERNEL LAUNCHES NUMBERS ITEMS SAMPLES: as many lines, the ms of each sample. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *driver;

static void *find(const char *name) {
  void *function = dlsym(driver, name);
  if (!function) fprintf(stderr, "the driver has no %s\n", name), exit(1);
  return function;
}

#define CL(result, name, arguments) result(*name) arguments = (result(*) arguments)find(#name)

static void want(int code, const char *call) {
  if (code) fprintf(stderr, "%s says %d\n", call, code), exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static char *content(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 20);
  if (!file || !fread(text, 1, (1 << 20) - 1, file)) fprintf(stderr, "no %s\n", path), exit(1);
  fclose(file);
  return text;
}

int main(int count, char **words) {
  if (count != 7) return 2;
  const int launches = atoi(words[3]), samples = atoi(words[6]);
  const size_t numbers = strtoul(words[4], NULL, 10), items = strtoul(words[5], NULL, 10);
  driver = dlopen("libOpenCL.so.1", RTLD_NOW);
  if (!driver) fprintf(stderr, "%s\n", dlerror()), exit(1);
  CL(int, clGetPlatformIDs, (unsigned, void **, unsigned *));
  CL(int, clGetDeviceIDs, (void *, uint64_t, unsigned, void **, unsigned *));
  CL(void *, clCreateContext, (const intptr_t *, unsigned, void **, void *, void *, int *));
  CL(void *, clCreateCommandQueue, (void *, void *, uint64_t, int *));
  CL(void *, clCreateBuffer, (void *, uint64_t, size_t, void *, int *));
  CL(void *, clCreateProgramWithSource, (void *, unsigned, const char **, const size_t *, int *));
  CL(int, clBuildProgram, (void *, unsigned, void **, const char *, void *, void *));
  CL(void *, clCreateKernel, (void *, const char *, int *));
  CL(int, clSetKernelArg, (void *, unsigned, size_t, const void *));
  CL(int, clEnqueueNDRangeKernel,
     (void *, void *, unsigned, const size_t *, const size_t *, const size_t *, unsigned, void *, void *));
  CL(int, clFinish, (void *));

  void *platform, *device, *buffers[2];
  int code;
  want(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  want(clGetDeviceIDs(platform, 0xffffffff, 1, &device, NULL), "clGetDeviceIDs");
  void *context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  want(code, "clCreateContext");
  void *queue = clCreateCommandQueue(context, device, 0, &code);
  want(code, "clCreateCommandQueue");
  for (int i = 0; i < 2; ++i) {
    buffers[i] = clCreateBuffer(context, 1, numbers * sizeof(float), NULL, &code);
    want(code, "clCreateBuffer");
  }
  const char *source = content(words[1]);
  void *program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  want(code, "clCreateProgramWithSource");
  want(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
  void *kernel = clCreateKernel(program, words[2], &code);
  want(code, "clCreateKernel");

  for (int sample = -1; sample < samples; ++sample) { /* the first one warms up */
    const double begin = now();
    for (int i = 0; i < launches; ++i) {
      want(clSetKernelArg(kernel, 0, sizeof(void *), &buffers[i % 2]), "clSetKernelArg");
      want(clSetKernelArg(kernel, 1, sizeof(void *), &buffers[1 - i % 2]), "clSetKernelArg");
      want(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &numbers, &items, 0, NULL, NULL),
           "clEnqueueNDRangeKernel");
    }
    want(clFinish(queue), "clFinish");
    if (sample >= 0) printf("%.6f\n", now() - begin);
  }
  return 0;
}
