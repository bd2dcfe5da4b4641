/* What choosing a network's shape costs: nanoseconds of edge_measure_copies, which on a CPU does nothing else, after
 * an input was set, less those of both calls alone. The fastest of some rounds.
 *
 *   choosing NETWORK WIDTH
 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "edge_rt.h"

enum { ROUNDS = 25, CALLS = 4000 };

static edge_library* library;
static edge_tensor input;
static double ms;

static void set(void) { edge_set_input(library, 0, &input); }
static void choose(void) { edge_measure_copies(library, 1, &ms, &ms); }
static void both(void) {
  set();
  choose();
}

static double fastest(void (*call)(void)) {
  double best = 1e30;
  for (int round = 0; round < ROUNDS; ++round) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; ++i) call();
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double ns = ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / CALLS;
    if (ns < best) best = ns;
  }
  return best;
}

int main(int argc, char** argv) {
  const edge_options options = {.size = sizeof options, .threads = 1};
  if (argc != 3 || (library = edge_open(argv[1], &options)) == NULL) {
    fprintf(stderr, "%s\n", edge_last_error());
    return 1;
  }
  const int64_t width = atoi(argv[2]), shape[] = {1, 3, 16, width};
  const size_t bytes = 3 * 16 * width * sizeof(float);
  input = (edge_tensor){"float32", 4, shape, calloc(1, bytes), bytes};
  set();
  choose();
  printf("%.1f\n", fastest(both) - fastest(set) - fastest(choose));
  edge_close(library);
  return 0;
}
