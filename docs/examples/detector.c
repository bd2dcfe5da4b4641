/* A detector whose network ends before its NonMaxSuppression, which is done here:
 *   ./detector detector-rk3399.so 1x3x320x320 input.bin
 * The network was built with `--outputs BOXES,SCORES`: boxes [1, N, 4] by two corners, scores
 * [1, classes, N]. Prints class, score and corners of each object, one on a line. */
#include <stdio.h>
#include <stdlib.h>

#include "edge_rt.h"

#define LEAST_SCORE 0.3f
#define MOST_OVERLAP 0.5f /* of two boxes of a class that are kept, as intersection over union */
#define MOST_OBJECTS 100  /* of a class */

static const float* sorted_scores; /* qsort has no argument for it */

static int by_score(const void* a, const void* b) {
  const int i = *(const int*)a, j = *(const int*)b;
  const float x = sorted_scores[i], y = sorted_scores[j];
  return x > y ? -1 : x < y ? 1 : i - j;
}

static float smaller(float a, float b) { return a < b ? a : b; }
static float larger(float a, float b) { return a > b ? a : b; }
static float side(const float* box, int i) { return larger(box[i], box[i + 2]) - smaller(box[i], box[i + 2]); }

/* Intersection over union; any two opposite corners will do. */
static float overlap(const float* a, const float* b) {
  float inner = 1;
  for (int i = 0; i < 2; ++i) {
    const float low = larger(smaller(a[i], a[i + 2]), smaller(b[i], b[i + 2]));
    inner *= larger(0, smaller(larger(a[i], a[i + 2]), larger(b[i], b[i + 2])) - low);
  }
  const float both = side(a, 0) * side(a, 1) + side(b, 0) * side(b, 1) - inner;
  return both > 0 ? inner / both : 0;
}

static void print_objects(const float* boxes, const float* scores, int classes, int count) {
  int* order = malloc((size_t)count * sizeof(int));
  int kept[MOST_OBJECTS];
  if (!order) exit(1);
  for (int kind = 0; kind < classes; ++kind, scores += count) {
    int n = 0;
    for (int i = 0; i < count; ++i) order[i] = i;
    sorted_scores = scores;
    qsort(order, (size_t)count, sizeof(int), by_score);
    for (int at = 0; at < count && scores[order[at]] > LEAST_SCORE && n < MOST_OBJECTS; ++at) {
      const float* box = boxes + 4 * order[at];
      int free_of_all = 1;
      for (int k = 0; k < n && free_of_all; ++k) {
        free_of_all = overlap(box, boxes + 4 * kept[k]) <= MOST_OVERLAP;
      }
      if (!free_of_all) continue;
      kept[n++] = order[at];
      printf("%d %.9g %.9g %.9g %.9g %.9g\n", kind, scores[order[at]], box[0], box[1], box[2], box[3]);
    }
  }
  free(order);
}

static int fail(const char* what) {
  fprintf(stderr, "detector: %s\n", what);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: detector LIBRARY SHAPE INPUT\n"), 2;
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
  const edge_tensor input = {"float32", ndim, shape, data, values * sizeof(float)};
  if (!network || edge_set_input(network, 0, &input) || edge_run(network)) return fail(edge_last_error());
  edge_tensor boxes, scores; /* valid until the next run; in the order of --outputs */
  if (edge_output(network, 0, &boxes) || edge_output(network, 1, &scores)) return fail(edge_last_error());
  if (boxes.ndim != 3 || boxes.shape[2] != 4 || scores.ndim != 3 || scores.shape[2] != boxes.shape[1]) {
    return fail("the outputs are not boxes [1, N, 4] and scores [1, classes, N]");
  }
  print_objects(boxes.data, scores.data, (int)scores.shape[1], (int)boxes.shape[1]);
  edge_close(network);
  free(data);
  return 0;
}
