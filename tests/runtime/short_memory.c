/* Memory that is refused once: the request number SHORT_AT that `main` and what it calls makes, of SHORT_FROM bytes or more.
   In children of that process none is refused. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static pid_t self;
static long at, asked;
static size_t from;
static int (*program)(int, char**, char**);

static int refused(size_t bytes) {
  if (self == 0 || bytes < from || getpid() != self) return 0;
  if (__atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST) != at) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t bytes) { return refused(bytes) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return refused(count * bytes) ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return refused(bytes) ? NULL : __libc_realloc(old, bytes); }
void* aligned_alloc(size_t to, size_t bytes) { return refused(bytes) ? NULL : __libc_memalign(to, bytes); }
int posix_memalign(void** made, size_t to, size_t bytes) {
  if (refused(bytes)) return ENOMEM;
  *made = __libc_memalign(to, bytes);
  return *made == NULL ? ENOMEM : 0;
}
void* mmap(void* near, size_t bytes, int protection, int flags, int fd, off_t offset) {
  static void* (*next)(void*, size_t, int, int, int, off_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "mmap");
  return refused(bytes) ? MAP_FAILED : next(near, bytes, protection, flags, fd, offset);
}

static int begin(int count, char** words, char** environment) {
  at = atol(getenv("SHORT_AT"));
  from = strtoul(getenv("SHORT_FROM"), NULL, 10);
  self = getpid();
  return program(count, words, environment);
}

/* What is constructed before `main` has its memory. */
int __libc_start_main(int (*first)(int, char**, char**), int count, char** words, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void* stack) {
  int (*next)(int (*)(int, char**, char**), int, char**, void (*)(void), void (*)(void), void (*)(void), void*);
  *(void**)&next = dlsym(RTLD_NEXT, "__libc_start_main");
  program = first;
  return next(begin, count, words, init, fini, end, stack);
}

/* A last file descriptor tells how often was asked. */
void _exit(int code) {
  if (getpid() == self && getenv("SHORT_TELL") != NULL) {
    FILE* told = fopen(getenv("SHORT_TELL"), "w");
    if (told != NULL) fprintf(told, "%ld", asked), fclose(told);
  }
  void (*next)(int);
  *(void**)&next = dlsym(RTLD_NEXT, "_exit");
  next(code);
  __builtin_unreachable();
}
