// An opened network: what edge_rt.h's functions are about.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/tensor.h>
#include <tvm/runtime/vm/vm.h>

#include <set>
#include <string>
#include <vector>

#include "cpu.h"
#include "device.h"
#include "shapes.h"

struct edge_library {
  edge_library(edge::Found found, tvm::ffi::Module code, tvm::ffi::Module runs_it, edge::Placement threads)
      : device(found.device),
        computes_on(found.name),
        executable(code),
        machine(runs_it),
        placement(threads) {}
  ~edge_library() {
    // What a device made of the network, such as graphs, goes before the memory that it uses.
    static_cast<tvm::runtime::vm::VirtualMachine*>(machine.operator->())->extensions.clear();
  }

  tvm::Device device;
  std::string computes_on;
  tvm::ffi::Module executable;
  tvm::ffi::Module machine;
  edge::Placement placement;
  int number = 0;  // runs of the last edge_measure
  std::vector<std::string> names;
  std::vector<tvm::ffi::Optional<tvm::runtime::Tensor>> inputs;
  std::vector<edge::NetworkShape> shapes;
  bool pad = false;
  bool changed = true;                          // an input, since a shape was chosen
  const edge::NetworkShape* chosen = nullptr;   // of `shapes`
  std::vector<tvm::runtime::Tensor> arguments;  // the inputs as the chosen shape takes them
  std::vector<tvm::runtime::Tensor> outputs;
  std::set<std::string> dtypes;  // that outputs were told to have: programs keep pointers to them
};

namespace edge {

constexpr tvm::Device kCpu{kDLCPU, 0};

bool IsCpu(const tvm::Device& device);

// Until it has computed what it was given.
void Await(const tvm::Device& device);

tvm::ffi::Module NewMachine(const tvm::ffi::Module& executable, const tvm::Device& device);

// Calls a function of the network with the arguments of the shape that was chosen.
tvm::ffi::Any Call(const edge_library& library, const tvm::ffi::Function& function);

// Outputs may be nested tuples; they are numbered from left to right, and brought to the host's memory.
void Flatten(const tvm::ffi::Any& value, std::vector<tvm::runtime::Tensor>* out);

}  // namespace edge
