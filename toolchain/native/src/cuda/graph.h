// Graphs of kernels: captured once, then launched as a whole, which takes the host a few microseconds instead of
// as many for each kernel.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "cuda/units.h"

namespace edge::cuda {

// What a graph uses lives as long as the graph: the code of its kernels, and the memory that functions took for
// themselves while it was captured.
class GraphResources {
 public:
  explicit GraphResources(Gpu& gpu) : gpu_(gpu) {}
  ~GraphResources();
  GraphResources(const GraphResources&) = delete;
  GraphResources& operator=(const GraphResources&) = delete;

  void* Take(size_t bytes);
  // Another function of the same graph may take it: its kernels run one after the other.
  void Give(void* piece);
  void Keep(const std::shared_ptr<LoadedUnits>& units) { units_.insert(units); }

 private:
  Gpu& gpu_;
  std::map<void*, size_t> taken_;
  std::multimap<size_t, void*> spare_;  // by bytes
  std::set<std::shared_ptr<LoadedUnits>> units_;
};

class Graph {
 public:
  Graph(Gpu& gpu, CUgraphExec exec, std::unique_ptr<GraphResources> resources);
  // Waits for it, then frees it, then what it used.
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void Launch();

 private:
  Gpu& gpu_;
  CUgraphExec exec_;
  std::unique_ptr<GraphResources> resources_;
};

// While it lives, what the calling thread begins becomes part of a graph and does not run. Other threads go on: it
// has a stream of its own.
class Capture {
 public:
  explicit Capture(Gpu& gpu);
  // Gives up what was not ended.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::unique_ptr<Graph> End();

  CUstream stream() const { return stream_; }
  GraphResources& resources() { return *resources_; }
  void Keep(const std::shared_ptr<LoadedUnits>& units) { resources_->Keep(units); }

 private:
  CUresult Stop(CUgraph* graph) noexcept;

  Gpu& gpu_;
  CUstream stream_ = nullptr;
  std::unique_ptr<GraphResources> resources_;
};

// The calling thread's; a null pointer outside of one.
Capture* CurrentCapture();

}  // namespace edge::cuda
