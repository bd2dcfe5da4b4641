#include "cuda/graph.h"

#include <utility>

namespace edge::cuda {
namespace {

thread_local Capture* current = nullptr;

constexpr const char* kHint = "a graph of the network's kernels; --graph off runs them one by one";

}  // namespace

Capture* CurrentCapture() { return current; }

GraphResources::~GraphResources() {
  for (const auto& [bytes, piece] : spare_) gpu_.workspaces.Give(piece);
  for (const auto& [piece, bytes] : taken_) gpu_.workspaces.Give(piece);
}

void* GraphResources::Take(size_t bytes) {
  const auto fits = spare_.lower_bound(bytes);
  if (fits == spare_.end()) {
    void* piece = gpu_.workspaces.Take(bytes);
    taken_[piece] = bytes;
    return piece;
  }
  void* piece = fits->second;
  taken_[piece] = fits->first;
  spare_.erase(fits);
  return piece;
}

void GraphResources::Give(void* piece) {
  const auto found = taken_.find(piece);
  if (found == taken_.end()) return;
  spare_.emplace(found->second, piece);
  taken_.erase(found);
}

Graph::Graph(Gpu& gpu, CUgraphExec exec, std::unique_ptr<GraphResources> resources)
    : gpu_(gpu), exec_(exec), resources_(std::move(resources)) {}

Graph::~Graph() {
  if (!gpu_.TryEnter()) return;
  gpu_.cu.cuStreamSynchronize(gpu_.stream);
  gpu_.cu.cuGraphExecDestroy(exec_);
}

void Graph::Launch() {
  gpu_.Enter();
  gpu_.Check("cuGraphLaunch", gpu_.cu.cuGraphLaunch(exec_, gpu_.stream), kHint);
  gpu_.Begun("the network's graph");
}

Capture::Capture(Gpu& gpu) : gpu_(gpu), resources_(std::make_unique<GraphResources>(gpu)) {
  gpu_.Enter();
  gpu_.Check("cuStreamCreate", gpu_.cu.cuStreamCreate(&stream_, kNonBlocking));
  // Relaxed: another thread may allocate while this one captures.
  const CUresult code = gpu_.cu.cuStreamBeginCapture_v2(stream_, kCaptureRelaxed);
  if (code != kSuccess) gpu_.cu.cuStreamDestroy_v2(stream_);
  gpu_.Check("cuStreamBeginCapture", code, kHint);
  current = this;
}

CUresult Capture::Stop(CUgraph* graph) noexcept {
  current = nullptr;
  const CUresult code = gpu_.cu.cuStreamEndCapture(stream_, graph);
  gpu_.cu.cuStreamDestroy_v2(std::exchange(stream_, nullptr));
  return code;
}

Capture::~Capture() {
  if (stream_ == nullptr) return;
  CUgraph graph = nullptr;
  if (Stop(&graph) == kSuccess && graph != nullptr) gpu_.cu.cuGraphDestroy(graph);
}

std::unique_ptr<Graph> Capture::End() {
  CUgraph graph = nullptr;
  gpu_.Check("cuStreamEndCapture", Stop(&graph), kHint);
  CUgraphExec exec = nullptr;
  const CUresult code = gpu_.cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
  gpu_.cu.cuGraphDestroy(graph);
  gpu_.Check("cuGraphInstantiate", code, kHint);
  return std::make_unique<Graph>(gpu_, exec, std::move(resources_));
}

}  // namespace edge::cuda
