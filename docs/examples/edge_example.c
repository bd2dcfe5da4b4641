/* Runs a network once: edge_example LIBRARY SHAPE INPUT, such as
 *   ./edge_example mobilenet-rk3399.so 1x3x224x224 input.bin
 * INPUT holds float32 values in C order. Prints each output's values, one on a line. */
#include <stdio.h>
#include <stdlib.h>

#include "edge_rt.h"

static int fail(void) {
  fprintf(stderr, "edge_example: %s\n", edge_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: edge_example LIBRARY SHAPE INPUT\n"), 2;
  int64_t shape[8];
  int ndim = 0;
  size_t values = 1;
  for (char* at = argv[2]; *at && ndim < 8; at += *at == 'x') {
    shape[ndim] = strtol(at, &at, 10);
    values *= (size_t)shape[ndim++];
  }
  float* data = malloc(values * sizeof(float));
  FILE* file = fopen(argv[3], "rb");
  if (!data || !file || fread(data, sizeof(float), values, file) != values) return perror(argv[3]), 1;
  fclose(file);

  edge_library* network = edge_open(argv[1], NULL); /* NULL: one thread for each core */
  if (!network) return fail();
  const edge_tensor input = {"float32", ndim, shape, data, values * sizeof(float)};
  if (edge_set_input(network, 0, &input) || edge_run(network)) return fail();
  for (int i = 0; i < edge_output_count(network); ++i) {
    edge_tensor output; /* valid until the next run */
    if (edge_output(network, i, &output)) return fail();
    for (size_t n = 0; n < output.bytes / sizeof(float); ++n) {
      printf("%.9g\n", ((const float*)output.data)[n]);
    }
  }
  edge_close(network);
  free(data);
  return 0;
}
