/* A broken OpenCL driver: it notes that it was opened, and does harm when it is first asked. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void opened(void) {
  const char* mark = getenv("STUB_MARK");
  if (mark) close(open(mark, O_CREAT | O_WRONLY, 0600));
}

int clGetPlatformIDs(unsigned most, void** platforms, unsigned* count) {
  const char* harm = getenv("STUB_HARM");
  if (harm && strcmp(harm, "hang") == 0) {
    for (;;) pause();
  }
  if (harm && strcmp(harm, "crash") == 0) raise(11);
  if (harm && strcmp(harm, "exit") == 0) _exit(0);
  if (count) *count = 0;
  return -1001;
}

#define UNUSED(name) int name(void) { return -30; }
UNUSED(clGetPlatformInfo) UNUSED(clGetDeviceIDs) UNUSED(clGetDeviceInfo) UNUSED(clCreateContext)
UNUSED(clReleaseContext) UNUSED(clCreateCommandQueue) UNUSED(clCreateBuffer) UNUSED(clReleaseMemObject)
UNUSED(clEnqueueReadBuffer) UNUSED(clEnqueueWriteBuffer) UNUSED(clEnqueueCopyBuffer)
UNUSED(clEnqueueNDRangeKernel) UNUSED(clFlush) UNUSED(clFinish) UNUSED(clCreateProgramWithSource)
UNUSED(clCreateProgramWithBinary) UNUSED(clBuildProgram) UNUSED(clGetProgramInfo)
UNUSED(clGetProgramBuildInfo) UNUSED(clReleaseProgram) UNUSED(clCreateKernel) UNUSED(clReleaseKernel)
UNUSED(clGetKernelWorkGroupInfo)
#ifndef STUB_LACKS
UNUSED(clSetKernelArg)
#endif
