/* The C interface of edge-rt: run a library built by the toolchain.
 *
 * No C++ and no exception crosses it. A library is used by one thread at a time, the one that
 * opened it. Functions that return int return EDGE_OK or what went wrong; the words are in
 * edge_last_error(). `edge-rt run` and `edge-rt bench` are built on nothing else.
 */
#ifndef EDGE_RT_H_
#define EDGE_RT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The numbers are edge-rt's exit codes. */
enum edge_status {
  EDGE_OK = 0,
  EDGE_FAILED = 1,   /* loading, running, reading or writing failed */
  EDGE_USAGE = 2,    /* an argument can't be used: wrong count, type, index; values of an input too */
  EDGE_REFUSED = 4,  /* a release may not be installed: who signed it, what it says, or what it computed */
  EDGE_REQUIRES = 5, /* here is not what the library needs: a feature of the CPU, a device, a function */
  EDGE_BUSY = 75     /* another measurement holds the lock */
};

typedef struct edge_library edge_library;

/* Begin with {.size = sizeof(edge_options)}; where another field is 0 its default holds. New fields come
 * at the end: a program and a libedge.so of different versions agree, or edge_open says why not. */
typedef struct edge_options {
  size_t size;            /* sizeof(edge_options) */
  const char* cluster;    /* a core's LLVM name, such as "cortex-a72"; NULL: any */
  const char* requires_;  /* comma-separated CPU features as Linux names them; NULL: none */
  int threads;            /* 0: one for each physical core of the cluster, or of the machine */
  int spin_us;            /* how long a thread without work stays awake; 0: 50; not at all if
                           * negative, or with more threads than CPUs */
  const char* device;     /* what computes: "cpu" or, as `edge-rt info` lists them, a kind such as "opencl",
                           * a kind and a number, "opencl:1", or a kind and a name, "vta:sim"; NULL: the CPU.
                           * A simulation is taken by its name alone. Of the second version */
  const char* device_folder; /* where a device's driver keeps what it compiles for the next process: a
                           * folder that only this user may write to, made if it is missing; NULL or "": it
                           * compiles each time. The last edge_open's. Of the third version */
  size_t pad;             /* not 0: inputs that have none of the library's shapes get zeros behind them, on any
                           * axis, up to the smallest shape that they fit into. Whether a network computes the
                           * same then, its bundle says. Of the fourth version */
} edge_options;

/* C order, packed. `dtype` as numpy names it: float16/32/64, int8…64, uint8…64, bool. */
typedef struct edge_tensor {
  const char* dtype;
  int ndim;
  const int64_t* shape;
  const void* data;
  size_t bytes;
} edge_tensor;

/* NULL if it can't be opened. No options (NULL): the defaults. CPU features, the device and the file's
 * machine are checked before the file is loaded. Threads, cluster and spin_us of the last edge_open hold for the
 * whole process. While one network computes, another that a second thread runs computes in that thread
 * alone. A forked child has threads of its own, but no other device than the CPU if its parent has used
 * that one; threads take no signals that are sent to the process. */
edge_library* edge_open(const char* path, const edge_options* options);
void edge_close(edge_library* library);

int edge_input_count(const edge_library* library);
const char* edge_input_name(const edge_library* library, int index);
/* A library of one network in several shapes: how many, 0 for a library with one shape; and the extents of an
 * input in one of them, the largest shape first, NULL where there is no such shape or input. They live as long as
 * the library. */
int edge_shape_count(const edge_library* library);
const int64_t* edge_shape(const edge_library* library, int shape, int input, int* ndim);

/* Copies the data, from the host's memory, whatever computes. */
int edge_set_input(edge_library* library, int index, const edge_tensor* value);

/* Of several shapes it takes the one that the inputs have; EDGE_USAGE with the kind "shape", and words that list
 * them, where there is none.
 * Values that decide what memory is read or written are checked while the network computes: indices, lengths,
 * divisors. EDGE_USAGE with the kind "value" where one is out of range; the words name the input (or the
 * network's part that computed it), the value, its place, and the range. There are no outputs then, and the
 * next run may have other inputs. */
int edge_run(edge_library* library);
int edge_output_count(const edge_library* library);
/* What `value` points to is the host's memory, whatever computes, and lives until the next edge_run,
 * edge_measure or edge_close. */
int edge_output(edge_library* library, int index, edge_tensor* value);

/* One repeat: mean milliseconds over at least `number` runs that together take at least
 * `min_repeat_ms`; *runs says over how many (it may be NULL). */
int edge_measure(edge_library* library, int number, int min_repeat_ms, double* ms, int* runs);

/* Milliseconds that it takes to copy all inputs to the device, and all outputs back: no part of edge_measure's
 * time. The fastest of `repeat` times; 0 where the device computes in the host's memory. */
int edge_measure_copies(edge_library* library, int repeat, double* to_ms, double* from_ms);

/* Runs `runs` times and reports each operator: calls and milliseconds per run. A device is waited for
 * after each of them. */
typedef void (*edge_operator)(void* context, const char* name, double calls, double ms);
int edge_profile(edge_library* library, int runs, edge_operator report, void* context);

/* Where the threads run. `cpus` is NULL when they are not bound (the cluster isn't here). */
int edge_threads(const edge_library* library);
const int* edge_cpus(const edge_library* library, int* count);

/* Of the calling thread's last failed call; never NULL. The kind is one word. */
const char* edge_last_error(void);
const char* edge_last_error_kind(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
