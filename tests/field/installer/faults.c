/* A disk that becomes full or read-only, or keeps other bytes than it was given: LD_PRELOAD it. As long as the file
 * FAULT_FILE has a number, whatever would change something below FAULT_ROOT fails with this errno; if it is -1, the first
 * byte of each write is changed. With FAULT_WHILE, a folder, that is so while something lies in it. Files whose path has
 * FAULT_READ in it cannot be read, and X the first look at the free
 * bytes sees none.
 *
 * Or the FAULT_CALLth call that changes something below FAULT_ROOT, counted from 1: FAULT_HOW is "kill" (the process is
 * killed before it), "once" or "on" (it fails with FAULT_ERROR, or it and all later ones that such a disk refuses). With
 * FAULT_CALLS, a file, each of these calls gets a line in it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define REAL(type, name, ...)                                   \
  static type (*real)(__VA_ARGS__);                             \
  if (real == NULL) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int real_open(const char* path, int flags, mode_t mode) {
  REAL(int, "open", const char*, int, ...);
  return real(path, flags, mode);
}

static int is_empty(const char* folder) {
  DIR* entries = opendir(folder);
  int found = 0;
  if (entries == NULL) return 1;
  while (readdir(entries) != NULL) ++found;
  closedir(entries);
  return found <= 2;
}

/* Whether the path of an open file is known, and the path. */
static int path_of(int fd, char path[PATH_MAX]) {
  char link[64];
  ssize_t length;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, PATH_MAX - 1);
  if (length <= 0) return 0;
  path[length] = '\0';
  return 1;
}

/* Whether an open file's path has what a variable says in it. */
static int is_named(int fd, const char* variable) {
  const char* part = getenv(variable);
  char path[PATH_MAX];
  return part != NULL && path_of(fd, path) && strstr(path, part) != NULL;
}

/* The errno that a change of this path has now; 0: none; -1: it is written wrongly. */
static int fault(const char* path) {
  const char *file = getenv("FAULT_FILE"), *root = getenv("FAULT_ROOT");
  char text[8] = "";
  int fd;
  if (file == NULL || root == NULL || strncmp(path, root, strlen(root)) != 0) return 0;
  if (getenv("FAULT_WHILE") != NULL && is_empty(getenv("FAULT_WHILE"))) return 0;
  fd = real_open(file, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return 0;
  if (read(fd, text, sizeof text - 1) < 0) text[0] = '\0';
  close(fd);
  return atoi(text);
}

/* What a call does: take space, move a name, free space, or wait for the disk. */
enum does { TAKES, MOVES, FREES, SYNCS };

/* The errno of a counted call; 0: none. */
static int counted(const char* call, const char* path, enum does does) {
  static int calls;
  const char *root = getenv("FAULT_ROOT"), *at = getenv("FAULT_CALL"), *log = getenv("FAULT_CALLS");
  const char* how = getenv("FAULT_HOW");
  int error;
  if (root == NULL || (at == NULL && log == NULL) || strncmp(path, root, strlen(root)) != 0) return 0;
  ++calls;
  if (log != NULL) {
    const int fd = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    dprintf(fd, "%s %s\n", call, path + strlen(root));
    close(fd);
  }
  if (at == NULL || calls < atoi(at)) return 0;
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "once") == 0 && calls > atoi(at)) return 0;
  error = atoi(getenv("FAULT_ERROR"));
  if (error == ENOSPC && (does == FREES || (does == MOVES && strcmp(how, "on") == 0))) return 0;
  return error == EROFS && does == SYNCS ? 0 : error;
}

static int refuses(const char* call, const char* path, enum does does) {
  const int asked = fault(path);
  const int error = asked > 0 && (does == TAKES || (does != SYNCS && asked == EROFS)) ? asked : counted(call, path, does);
  if (error > 0) errno = error;
  return error > 0;
}

#define OPEN(name)                                                                           \
  int name(const char* path, int flags, ...) {                                               \
    va_list rest;                                                                            \
    mode_t mode;                                                                             \
    va_start(rest, flags);                                                                   \
    mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;                                \
    va_end(rest);                                                                            \
    if ((flags & O_ACCMODE) != O_RDONLY && refuses("open", path, TAKES)) return -1;          \
    return real_open(path, flags, mode);                                                     \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void* bytes, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t);
  char path[PATH_MAX];
  if (path_of(fd, path)) {
    if (refuses("write", path, TAKES)) return -1;
    if (size > 0 && fault(path) < 0) {
      const char wrong = (char)(*(const char*)bytes ^ 1);
      return real(fd, &wrong, 1);
    }
  }
  return real(fd, bytes, size);
}

ssize_t read(int fd, void* bytes, size_t size) {
  REAL(ssize_t, "read", int, void*, size_t);
  if (is_named(fd, "FAULT_READ")) {
    errno = EIO;
    return -1;
  }
  return real(fd, bytes, size);
}

int fsync(int fd) {
  REAL(int, "fsync", int);
  char path[PATH_MAX];
  if (path_of(fd, path) && refuses("fsync", path, SYNCS)) return -1;
  if (is_named(fd, "FAULT_SYNC")) {
    errno = EIO;
    return -1;
  }
  return real(fd);
}

#define STATVFS(name)                                                    \
  int name(const char* path, struct name* found) {                       \
    REAL(int, #name, const char*, struct name*);                         \
    static int looks;                                                    \
    const int said = real(path, found);                                  \
    if (getenv("FAULT_ROOM") != NULL && looks++ == 0) found->f_bavail = 0; \
    return said;                                                         \
  }
STATVFS(statvfs)
STATVFS(statvfs64)

int mkdir(const char* path, mode_t mode) {
  REAL(int, "mkdir", const char*, mode_t);
  return refuses("mkdir", path, TAKES) ? -1 : real(path, mode);
}

int symlink(const char* target, const char* path) {
  REAL(int, "symlink", const char*, const char*);
  return refuses("symlink", path, TAKES) ? -1 : real(target, path);
}

int link(const char* from, const char* path) {
  REAL(int, "link", const char*, const char*);
  return refuses("link", path, TAKES) ? -1 : real(from, path);
}

#define TRUNCATE(name, offset)                                                            \
  int name(int fd, offset size) {                                                         \
    REAL(int, #name, int, offset);                                                        \
    char path[PATH_MAX];                                                                  \
    return path_of(fd, path) && refuses("ftruncate", path, TAKES) ? -1 : real(fd, size);  \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

/* A full disk lets go and renames; a read-only one does neither. */
int unlinkat(int at, const char* name, int flags) {
  REAL(int, "unlinkat", int, const char*, int);
  char path[PATH_MAX];
  size_t size = 0;
  if (at != AT_FDCWD && name[0] != '/') {
    if (!path_of(at, path)) return real(at, name, flags);
    size = strlen(path);
    path[size++] = '/';
  }
  snprintf(path + size, PATH_MAX - size, "%s", name);
  return refuses("unlink", path, FREES) ? -1 : real(at, name, flags);
}

int rename(const char* from, const char* path) {
  REAL(int, "rename", const char*, const char*);
  return refuses("rename", path, MOVES) ? -1 : real(from, path);
}
