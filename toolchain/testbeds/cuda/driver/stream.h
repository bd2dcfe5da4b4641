// Streams keep what is enqueued and do it when somebody waits for it, not before: a wait that is missing shows.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "context.h"

namespace emulated {

using Work = std::function<CUresult()>;

// A sequence of calls that is recorded and not done.
struct Capture {
  Stream* origin = nullptr;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  bool invalid = false;
  std::vector<Work> work;
  std::vector<Stream*> streams;   // that take part
  std::vector<Stream*> unjoined;  // that have work which the origin does not wait for
};

struct Entry {
  Work work;
  std::vector<std::pair<Stream*, std::uint64_t>> after;  // what is done before it
};

struct Stream {
  Context* context = nullptr;
  bool blocking = true;  // it and the null stream wait for each other
  bool null = false;
  std::deque<Entry> entries;
  std::uint64_t done = 0, enqueued = 0;  // numbers of entries
  std::shared_ptr<Capture> capture;
};

struct Event {
  Context* context = nullptr;
  bool timing = true;
  bool recorded = false, completed = false, asked = false;
  std::chrono::steady_clock::time_point at;
  Stream* stream = nullptr;  // that it was recorded in last, and behind which entry
  std::uint64_t number = 0;
  std::shared_ptr<Capture> capture;  // that it was recorded in
};

struct Graph {
  std::vector<Work> work;
};

struct GraphExec {
  std::vector<Work> work;
};

// Returns the stream of a handle (none, or a number: the null stream), or nothing if it is no handle.
Stream* StreamOf(CUstream handle);
// Enqueues work, or records it where the stream is being captured.
CUresult Enqueue(Stream* stream, Work work);
// Does what a stream was told up to an entry; returns the first thing that went wrong.
CUresult Finish(Stream* stream, std::uint64_t number);
CUresult FinishAll(Context* context);
// Keeps a capture for `Unsafe`, while it goes on.
void Began(const std::shared_ptr<Capture>& capture);
// Ends captures which a call that waits, or allocates, makes invalid; the error that the call returns then.
CUresult Unsafe();

}  // namespace emulated
