/* Serves inferences over a Unix socket, and changes to a new release without failing one: serve CURRENT SHAPE SOCKET, such as
 *   ./serve field/counter/current 1x3x224x224 /run/edge-counter/socket
 * A client connects, sends the input's float32 values in C order, and reads all outputs, one after the other, until the
 * end. The connection of a request that failed ends without them.
 *
 * A process for each release: the parent holds the socket and looks where CURRENT leads. When that changes it starts a
 * worker, which opens the new library beside the old one and tries it; then the old worker answers what it has begun, and
 * ends. A worker that can't run its library ends, and the one before goes on. */
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "edge_rt.h"

static volatile sig_atomic_t ending;
static int64_t shape[8];
static edge_tensor input = {"float32", 0, shape, NULL, sizeof(float)};

static void end(int signal) { (void)signal, ending = 1; }

/* systemd's protocol: sd_notify(3). */
static void notify(const char* state) {
  const char* path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  if (!path || strlen(path) >= sizeof to.sun_path) return;
  strcpy(to.sun_path, path);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
  if (*path == '@') *to.sun_path = 0;
  const int handle = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (sendto(handle, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr*)&to, size) < 0) perror("serve: systemd");
  close(handle);
}

static int infer(edge_library* network) {
  if (!edge_set_input(network, 0, &input) && !edge_run(network)) return 0;
  fprintf(stderr, "serve: %s\n", edge_last_error());
  return -1;
}

/* Closing the connection tells a client that there is no more. */
static void answer(edge_library* network, int client) {
  const struct timeval patience = {.tv_sec = 5};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (recv(client, (void*)input.data, input.bytes, MSG_WAITALL) != (ssize_t)input.bytes || infer(network)) return;
  for (int i = 0; i < edge_output_count(network); ++i) {
    edge_tensor output;
    if (edge_output(network, i, &output)) return;
    for (size_t sent = 0; sent < output.bytes;) {
      const ssize_t size = send(client, (const char*)output.data + sent, output.bytes - sent, MSG_NOSIGNAL);
      if (size <= 0) return;
      sent += (size_t)size;
    }
  }
}

static int work(int listener, const char* folder, int ready) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof path, "%s/library.so", folder);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  /* Told to end only while it waits: a signal would cut short recv and send of a request that has begun. */
  sigset_t ends, before;
  sigemptyset(&ends), sigaddset(&ends, SIGTERM), sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, &before);
  edge_library* network = edge_open(path, NULL);
  if (!network) return fprintf(stderr, "serve: %s\n", edge_last_error()), 1;
  if (infer(network)) return 1;
  if (write(ready, "", 1) != 1) return 1;
  fprintf(stderr, "serve: %s\n", folder);
  while (!ending) {
    struct pollfd polled = {listener, POLLIN, 0};
    const struct timespec half_a_second = {.tv_nsec = 500000000};
    notify("WATCHDOG=1");
    if (ppoll(&polled, 1, &half_a_second, &before) <= 0) continue;
    const int client = accept(listener, NULL, NULL); /* the other worker may have taken it */
    if (client < 0) continue;
    answer(network, client);
    close(client);
  }
  edge_close(network);
  return 0;
}

/* Returns the worker once it has answered a trial, else 0. */
static pid_t start(int listener, const char* folder) {
  int ready[2];
  char tried;
  if (pipe(ready)) return 0;
  const pid_t worker = fork();
  if (worker == 0) close(ready[0]), _exit(work(listener, folder, ready[1]));
  close(ready[1]);
  struct pollfd polled = {ready[0], POLLIN, 0};
  const ssize_t size = poll(&polled, 1, 60000) == 1 ? read(ready[0], &tried, 1) : 0; /* none: the worker has ended */
  close(ready[0]);
  if (size == 1) return worker;
  if (worker > 0) kill(worker, SIGKILL), waitpid(worker, NULL, 0);
  return 0;
}

static int listen_at(const char* path) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof at.sun_path) return errno = ENAMETOOLONG, -1;
  strcpy(at.sun_path, path);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  unlink(path);
  if (listener < 0 || bind(listener, (struct sockaddr*)&at, sizeof at) || listen(listener, 64)) return -1;
  return listener;
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: serve CURRENT SHAPE SOCKET\n"), 2;
  for (char* at = argv[2]; *at && input.ndim < 8; at += *at == 'x') {
    shape[input.ndim] = strtol(at, &at, 10);
    if (shape[input.ndim] < 1 || (*at && *at != 'x')) return fprintf(stderr, "serve: %s is no shape\n", argv[2]), 2;
    input.bytes *= (size_t)shape[input.ndim++];
  }
  input.data = calloc(1, input.bytes);
  const int listener = listen_at(argv[3]);
  if (!input.data || listener < 0) return perror(argv[3]), 1;
  const struct sigaction action = {.sa_handler = end};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);

  char served[PATH_MAX] = "", refused[PATH_MAX] = "", now[PATH_MAX];
  pid_t worker = 0;
  while (!ending) {
    if (worker && waitpid(worker, NULL, WNOHANG) == worker) worker = 0, *served = 0;
    if (!worker) notify("WATCHDOG=1"); /* there is nothing to serve yet; else the worker does */
    /* Resolved once: what CURRENT leads to may change between two uses of it. */
    if (realpath(argv[1], now) && strcmp(now, served) && strcmp(now, refused)) {
      const pid_t next = start(listener, now);
      if (next) {
        if (worker) kill(worker, SIGTERM), waitpid(worker, NULL, 0);
        worker = next;
        strcpy(served, now);
        notify("READY=1");
      } else {
        strcpy(refused, now);
      }
    }
    poll(NULL, 0, 200);
  }
  if (worker) kill(worker, SIGTERM), waitpid(worker, NULL, 0);
  unlink(argv[3]);
  return 0;
}
