// What a context has: modules, streams, events. One exists for each device: its primary context.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "block.h"
#include "driver_api.h"

namespace emulated {

struct Context {
  CUdevice device = 0;
  unsigned retained = 0;
  CUresult failed = CUDA_SUCCESS;  // what every call says from now on
  Stream* null_stream = nullptr;
  std::vector<Stream*> streams;  // in the order they were created
};

struct Function {
  Module* module;
  const edge::Kernel* kernel;
  std::size_t most_dynamic_shared;
  std::string name;
};

struct Module {
  Context* context;
  void* library = nullptr;
  int file = -1;
  const edge::Unit* unit = nullptr;
  std::size_t constants = 0;  // bytes at the begin of the loaded file that nothing can write
  std::vector<std::unique_ptr<Function>> functions;
};

bool Initialised();
// Returns the context that is current in this thread, or nothing.
Context* CurrentContext();

// Handles that were given out and not destroyed. A handle that is none is told, where a GPU's driver might crash.
template <class T>
class Handles {
 public:
  T* Add(T* made) {
    all_.insert(made);
    return made;
  }
  bool Has(T* handle) const { return all_.count(handle) != 0; }
  bool Remove(T* handle) { return all_.erase(handle) != 0; }

 private:
  std::unordered_set<T*> all_;
};
template <class T>
Handles<T>& All() {
  static auto& all = *new Handles<T>;
  return all;
}

}  // namespace emulated
