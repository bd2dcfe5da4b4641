// NVIDIA's management library as edge-rt asks for it: a GPU at 1755 MHz and 61 degrees, on which three processes compute.
#include <string.h>

typedef struct {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
} Process;

static char gpu;

int nvmlInit_v2(void) { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
  if (strchr(id, ':') == 0) return 2;
  *device = &gpu;
  return 0;
}

int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz) {
  if (device != &gpu || type != 1) return 2;
  *mhz = 1755;
  return 0;
}

#ifndef LITTLE
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
  if (device != &gpu || sensor != 0) return 2;
  *degrees = 61;
  return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *processes) {
  if (device != &gpu || *count < 3) return 7;
  memset(processes, 0, 3 * sizeof(Process));
  *count = 3;
  return 0;
}
#endif
