// What the Relax virtual machine calls where the pass RewriteCUDAGraph has put functions of their own: those that
// allocate once, and those whose kernels become a graph. The names and arguments are TVM's
// (runtime/vm/cuda/cuda_graph_builtin.cc, whose version for the CUDA runtime library needs that on the board).
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>

#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/runtime/tensor.h>
#include <tvm/runtime/vm/vm.h>

#include <map>
#include <utility>
#include <vector>

#include "cuda/graph.h"
#include "device.h"

namespace edge::cuda {
namespace {

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Array;
using tvm::ffi::ObjectRef;
using tvm::ffi::PackedArgs;
using tvm::runtime::vm::VirtualMachine;

Any Invoke(VirtualMachine* machine, const ObjectRef& function, const Array<Any>& arguments) {
  const std::vector<AnyView> views(arguments.begin(), arguments.end());
  Any result;
  machine->InvokeClosurePacked(function, PackedArgs(views.data(), static_cast<int32_t>(views.size())), &result);
  return result;
}

// Tensors are made anew for each run; it is their memory that stays.
bool SameMemory(const Any& one, const Any& other) {
  const auto tensor = one.as<tvm::runtime::Tensor>(), its = other.as<tvm::runtime::Tensor>();
  if (!tensor.has_value() || !its.has_value()) return one.same_as(other);
  return tensor.value()->data == its.value()->data && tensor.value()->byte_offset == its.value()->byte_offset;
}

bool SameMemory(const Array<Any>& some, const Array<Any>& others) {
  if (some.size() != others.size()) return false;
  for (size_t i = 0; i < some.size(); ++i) {
    if (!SameMemory(some[i], others[i])) return false;
  }
  return true;
}

Gpu& GpuOfMachine(const VirtualMachine& machine) {
  for (const tvm::Device& device : machine.devices) {
    if (device.device_type == kDLCUDA) return GpuOf(device.device_id);
  }
  Fail("a graph for a network that runs on no GPU");
}

// The number of a function, and the extents that its kernels depend on.
using Key = std::vector<int64_t>;

struct Captured {
  // Declared before the graph, which is freed first: it uses the arguments' memory and the results'.
  Array<Any> arguments;
  Any result;
  std::unique_ptr<Graph> graph;
};

// A virtual machine's graphs, which live as long as that.
class GraphsNode final : public tvm::runtime::vm::VMExtensionNode {
 public:
  // Runs a function of kernels alone, whose arguments and results are the same memory each time. The first call
  // computes kernel by kernel, which loads and sets up whatever they need, and then captures the graph.
  Any Run(VirtualMachine* machine, const ObjectRef& function, const Array<Any>& arguments, const Key& key) {
    if (!UsesGraphs() || CurrentCapture() != nullptr) return Invoke(machine, function, arguments);
    const auto found = captured_.find(key);
    if (found != captured_.end() && SameMemory(found->second.arguments, arguments)) {
      found->second.graph->Launch();
      CountGraph();
      return found->second.result;
    }
    if (found != captured_.end()) captured_.erase(found);
    Any result = Invoke(machine, function, arguments);
    Capture capture(GpuOfMachine(*machine));
    Any of_graph = Invoke(machine, function, arguments);
    captured_.emplace(key, Captured{arguments, std::move(of_graph), capture.End()});
    return result;
  }

  // Runs a function that allocates, once.
  Any Allocate(VirtualMachine* machine, const ObjectRef& function, int64_t number) {
    const auto found = allocated_.find(number);
    if (found != allocated_.end()) return found->second;
    return allocated_[number] = Invoke(machine, function, {});
  }

  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("edge.cuda.Graphs", GraphsNode, tvm::runtime::vm::VMExtensionNode);

 private:
  std::map<int64_t, Any> allocated_;  // freed last
  std::map<Key, Captured> captured_;
};

class Graphs final : public tvm::runtime::vm::VMExtension {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Graphs, VMExtension, GraphsNode);
  static Graphs Create() { return Graphs(tvm::ffi::make_object<GraphsNode>()); }
};

Graphs GraphsOf(VirtualMachine* machine) { return machine->GetOrCreateExtension<Graphs>(); }

void CheckCount(PackedArgs arguments, int32_t least, int32_t most) {
  if (arguments.size() >= least && arguments.size() <= most) return;
  Fail("the library calls a function of graphs with another number of arguments than it has");
}

// Arguments: the machine, the function, its arguments, its number, and perhaps the extents.
void RunOrCapture(PackedArgs arguments, Any* result) {
  CheckCount(arguments, 4, 5);
  VirtualMachine* machine = VirtualMachine::GetContextPtr(arguments[0]);
  Key key{arguments[3].cast<int64_t>()};
  if (arguments.size() == 5) {
    const auto extents = arguments[4].cast<tvm::ffi::Shape>();
    key.insert(key.end(), extents.begin(), extents.end());
  }
  *result = GraphsOf(machine)->Run(machine, arguments[1].cast<ObjectRef>(), arguments[2].cast<Array<Any>>(), key);
}

// Arguments: the machine, the function, its number.
void CachedAllocation(PackedArgs arguments, Any* result) {
  CheckCount(arguments, 3, 3);
  VirtualMachine* machine = VirtualMachine::GetContextPtr(arguments[0]);
  *result = GraphsOf(machine)->Allocate(machine, arguments[1].cast<ObjectRef>(), arguments[2].cast<int64_t>());
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef()
      .def_packed("vm.builtin.cuda_graph.run_or_capture", RunOrCapture)
      .def_packed("vm.builtin.cuda_graph.get_cached_alloc", CachedAllocation);
}

}  // namespace edge::cuda
