// What a compiled unit of kernels and the emulated driver know of each other. Both are compiled with this file.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace edge {

constexpr uint32_t kKernelAbi = 2;  // of this file: the driver refuses a unit that was compiled with another

struct Triple {
  unsigned x, y, z;
};

// The thread that runs now, as the kernel sees it.
struct Now {
  Triple thread, block, block_size, grid_size;
  char* stack;  // lowest address of its stack: accesses to it are not checked
  size_t stack_bytes;
  char* dynamic_shared;
};

// What kernels ask of the driver. A check that fails ends the launch: then the call does not return.
struct Services {
  void (*access)(const void* at, size_t bytes, bool write, bool atomic);
  void (*barrier)(int line);
  void (*warp_barrier)(unsigned mask, int line);
  // Waits for the lanes of `mask`, each of which hands `bytes` bytes over; returns 32 slots of 64 bytes, by lane.
  // Slots are valid until the thread's next call.
  const char* (*gather)(unsigned mask, const void* mine, size_t bytes, const char* what, int line);
  unsigned (*active)();
  void (*copy_async)(void* to, const void* from, size_t bytes, size_t zeros);
  void (*commit_async)();
  void (*wait_async)(unsigned groups_left);
  // What a block wrote before it arrives at a counter is known to those that arrive there later.
  void (*arrive)(const void* counter);
  void (*fail)(int result, const char* words);  // a CUresult
};

struct Kernel {
  const char* name;
  void (*enter)(void* const* arguments);
  unsigned arguments;
  const unsigned* bytes;  // of each argument
  char *shared, *shared_end;  // its static shared memory
  unsigned most_threads;      // __launch_bounds__; 0: none
};

struct Unit {
  uint32_t abi, kernels;
  const Kernel* kernel;
  const Services** services;
  Now** now;
  const char* begin;  // of the loaded file
};

}  // namespace edge
