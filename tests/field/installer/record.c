/* Records what a program does to the files below a folder, for tests/field/replay.py: LD_PRELOAD it, with RECORD_ROOT (the
 * folder) and RECORD_TO (the log, a line of JSON for each change). Calls that libc makes inside itself, such as fopen's,
 * escape it; the replay notices that. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The real function of a name. */
#define REAL(type, name, ...)                                   \
  static type (*real)(__VA_ARGS__);                             \
  if (real == NULL) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int to = -1;
static const char* root;
static int logging;

static int is_on(void) {
  if (to == -1) {
    REAL(int, "open", const char*, int, ...);
    const char* path = getenv("RECORD_TO");
    root = getenv("RECORD_ROOT");
    to = path != NULL && root != NULL ? real(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -2;
  }
  return to >= 0 && !logging;
}

static void say(const char* format, ...) {
  va_list values;
  va_start(values, format);
  logging = 1;
  vdprintf(to, format, values);
  logging = 0;
  va_end(values);
}

/* A path below the root, without it; NULL for any other. Programs under test name their files by whole paths. */
static const char* below(const char* path) {
  size_t size;
  if (!is_on()) return NULL;
  size = strlen(root);
  if (strncmp(path, root, size) != 0) return NULL;
  if (path[size] == '\0') return ".";
  return path[size] == '/' ? path + size + 1 : NULL;
}

static const char* below_fd(int fd, char* path) {
  char link[64];
  ssize_t size;
  if (!is_on()) return NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  size = readlink(link, path, PATH_MAX - 1);
  if (size < 0) return NULL;
  path[size] = '\0';
  return below(path);
}

/* The whole path of a name in a folder that is open. */
static const char* below_at(int at, const char* name, char* path) {
  size_t size;
  if (at == AT_FDCWD || name[0] == '/') return below(name);
  if (below_fd(at, path) == NULL) return NULL;
  size = strlen(path);
  snprintf(path + size, PATH_MAX - size, "/%s", name);
  return below(path);
}

static unsigned long number(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

static int opened(const char* name, const char* path, int flags, mode_t mode) {
  REAL(int, name, const char*, int, ...);
  const char* inner = below(path);
  struct stat status;
  const int was = inner != NULL && lstat(path, &status) == 0;
  const int fd = real(path, flags, mode);
  if (fd < 0 || inner == NULL || (flags & O_ACCMODE) == O_RDONLY) return fd;
  if (!was) say("{\"op\": \"create\", \"path\": \"%s\", \"file\": %lu}\n", inner, number(fd));
  if (was && (flags & O_TRUNC) != 0) say("{\"op\": \"truncate\", \"file\": %lu, \"size\": 0}\n", number(fd));
  return fd;
}

static mode_t mode_of(int flags, va_list rest) { return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; }

#define OPEN(name)                              \
  int name(const char* path, int flags, ...) {  \
    va_list rest;                               \
    mode_t mode;                                \
    va_start(rest, flags);                      \
    mode = mode_of(flags, rest);                \
    va_end(rest);                               \
    return opened(#name, path, flags, mode);    \
  }
OPEN(open)
OPEN(open64)
int __open_2(const char* path, int flags) { return opened("open", path, flags, 0); }
int __open64_2(const char* path, int flags) { return opened("open64", path, flags, 0); }

ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t);
  char path[PATH_MAX];
  char* hex;
  ssize_t wrote, i;
  if (below_fd(fd, path) == NULL) return real(fd, bytes, size);
  const off_t at = (fcntl(fd, F_GETFL) & O_APPEND) != 0 ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
  wrote = real(fd, bytes, size);
  if (wrote <= 0) return wrote;
  hex = malloc(2 * wrote + 1);
  for (i = 0; i < wrote; ++i) sprintf(hex + 2 * i, "%02x", ((const unsigned char*)bytes)[i]);
  say("{\"op\": \"write\", \"file\": %lu, \"at\": %ld, \"hex\": \"%s\"}\n", number(fd), (long)at, hex);
  free(hex);
  return wrote;
}

int fsync(int fd) {
  REAL(int, "fsync", int);
  char path[PATH_MAX];
  struct stat status;
  const char* inner = below_fd(fd, path);
  const int result = real(fd);
  if (result != 0 || inner == NULL || fstat(fd, &status) != 0) return result;
  if (S_ISDIR(status.st_mode)) {
    say("{\"op\": \"sync folder\", \"path\": \"%s\"}\n", inner);
  } else {
    say("{\"op\": \"sync file\", \"file\": %lu}\n", (unsigned long)status.st_ino);
  }
  return result;
}

#define TRUNCATE(name, offset)                                                                            \
  int name(int fd, offset size) {                                                                         \
    REAL(int, #name, int, offset);                                                                        \
    char path[PATH_MAX];                                                                                  \
    const int result = real(fd, size);                                                                    \
    if (result == 0 && below_fd(fd, path) != NULL) {                                                      \
      say("{\"op\": \"truncate\", \"file\": %lu, \"size\": %ld}\n", number(fd), (long)size);              \
    }                                                                                                     \
    return result;                                                                                        \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

/* Functions of one path, or of two. */
#define ONE(name, op, ...)                                                            \
  int name(const char* path __VA_OPT__(, __VA_ARGS__)) {                              \
    REAL(int, #name, const char* __VA_OPT__(, mode_t));                               \
    const int result = real(path __VA_OPT__(, mode));                                 \
    const char* inner = below(path);                                                  \
    if (result == 0 && inner != NULL) say("{\"op\": \"" op "\", \"path\": \"%s\"}\n", inner); \
    return result;                                                                    \
  }
ONE(unlink, "remove")
ONE(mkdir, "folder", mode_t mode)

int unlinkat(int at, const char* name, int flags) {
  REAL(int, "unlinkat", int, const char*, int);
  char path[PATH_MAX];
  const char* inner = below_at(at, name, path);
  const int result = real(at, name, flags);
  if (result == 0 && inner != NULL) say("{\"op\": \"remove\", \"path\": \"%s\"}\n", inner);
  return result;
}

static void two(const char* op, const char* from, const char* to_path) {
  const char *first = below(from), *second = below(to_path);
  if (first != NULL && second != NULL) say("{\"op\": \"%s\", \"path\": \"%s\", \"to\": \"%s\"}\n", op, first, second);
}

int rename(const char* from, const char* to_path) {
  REAL(int, "rename", const char*, const char*);
  const int result = real(from, to_path);
  if (result == 0) two("rename", from, to_path);
  return result;
}

int link(const char* from, const char* to_path) {
  REAL(int, "link", const char*, const char*);
  const int result = real(from, to_path);
  if (result == 0) two("link", from, to_path);
  return result;
}

int symlink(const char* target, const char* path) {
  REAL(int, "symlink", const char*, const char*);
  const int result = real(target, path);
  const char* inner = below(path);
  if (result == 0 && inner != NULL) say("{\"op\": \"symlink\", \"path\": \"%s\", \"to\": \"%s\"}\n", inner, target);
  return result;
}
