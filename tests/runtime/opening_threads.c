/* Threads that open what cannot be opened, each with a folder of its own for its device's files. */
#define _GNU_SOURCE /* barriers */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "edge_rt.h"

static const char* file;
static pthread_barrier_t begin;

static void* open_often(void* letter) {
  char folder[256];
  pthread_barrier_wait(&begin);
  for (int i = 0; i < 20000; ++i) {
    const int length = 20 + (7 * i + 13 * (int)(intptr_t)letter) % 200;
    memset(folder, (int)(intptr_t)letter, length);
    folder[length] = 0;
    edge_options options = {.size = sizeof options, .device = "none", .device_folder = folder};
    if (edge_open(file, &options) != NULL) return NULL;
  }
  return letter;
}

int main(int count, char** words) {
  pthread_t threads[4];
  void* done;
  int all = count == 2;
  file = words[1];
  pthread_barrier_init(&begin, NULL, 4);
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, open_often, (void*)(intptr_t)('a' + i));
  for (int i = 0; i < 4; ++i) all = pthread_join(threads[i], &done) == 0 && done != NULL && all;
  return all ? 0 : 1;
}
