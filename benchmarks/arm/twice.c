/* Runs a library of ours twice and marks the second run, for count.c: twice LIBRARY OUTPUT [INPUT SHAPE]…
 *
 * INPUT holds float32 values in C order, SHAPE is such as 1x3x224x224, in the order of the network's inputs.
 * OUTPUT gets the first output's bytes. One thread: qemu's counters are not shared between threads. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "edge_rt.h"

static int fail(void) { return fprintf(stderr, "twice: %s\n", edge_last_error()), 1; }

static void* contents(const char* path, size_t bytes) {
  void* data = malloc(bytes);
  FILE* file = fopen(path, "rb");
  if (!data || !file || fread(data, 1, bytes, file) != bytes) perror(path), exit(1);
  fclose(file);
  return data;
}

static int set(edge_library* network, int index, const char* path, char* text) {
  int64_t shape[8];
  int ndim = 0;
  size_t bytes = sizeof(float);
  for (char* at = text; *at && ndim < 8; at += *at == 'x') {
    shape[ndim] = strtol(at, &at, 10);
    bytes *= (size_t)shape[ndim++];
  }
  void* data = contents(path, bytes);
  const edge_tensor value = {"float32", ndim, shape, data, bytes};
  const int code = edge_set_input(network, index, &value);
  free(data);
  return code;
}

int main(int argc, char** argv) {
  const edge_options options = {.size = sizeof options, .threads = 1};
  edge_library* network = argc > 2 ? edge_open(argv[1], &options) : NULL;
  if (!network) return fail();
  for (int i = 3; i + 1 < argc; i += 2) {
    if (set(network, (i - 3) / 2, argv[i], argv[i + 1])) return fail();
  }
  if (edge_run(network)) return fail();
  close(0x770001);
  if (edge_run(network)) return fail();
  close(0x770002);
  edge_tensor output;
  if (edge_output(network, 0, &output)) return fail();
  FILE* file = fopen(argv[2], "wb");
  if (!file || fwrite(output.data, 1, output.bytes, file) != output.bytes || fclose(file)) return perror(argv[2]), 1;
  edge_close(network);
  return 0;
}
