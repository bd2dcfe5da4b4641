#include "timing.h"

#include <tvm/runtime/timer.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "failure.h"
#include "load.h"

using tvm::ffi::Any;
using tvm::ffi::AnyView;
using tvm::ffi::Function;
using tvm::ffi::Module;
using tvm::runtime::Tensor;

namespace edge {

constexpr int kMostRuns = 1 << 30;

// Mean milliseconds of `number` runs by TVM's evaluator, the one behind RPC's time_evaluator, which waits
// for the device before the first and after the last. Its first, untimed call is left out: our caller warms up as it likes.
static double Evaluate(const edge_library& library, int number) {
  bool first = true;
  Function body = Function::FromPacked([&](const AnyView*, int, Any*) {
    if (!std::exchange(first, false)) Call(library, library.chosen->function);
  });
  const auto bytes = tvm::runtime::WrapTimeEvaluator(body, library.device, number, 1, 0, 1, 0, 1)()
                         .cast<tvm::ffi::Bytes>();
  double seconds;
  if (bytes.size() != sizeof(seconds)) throw Failure(EDGE_FAILED, "run", "no time came back");
  std::memcpy(&seconds, bytes.data(), sizeof(seconds));
  return seconds * 1e3;
}

void Measure(edge_library* library, int number, int min_ms, double* ms, int* runs) {
  if (number < 1 || min_ms < 0) throw Usage("a measurement needs at least one run");
  // A number that was large enough once is where the next repeat begins.
  number = std::max(number, library->number);
  while ((*ms = Evaluate(*library, number)) * number < min_ms && number < kMostRuns) {
    const double enough = *ms > 0 ? min_ms / *ms + 1 : 0;
    number = static_cast<int>(std::min<double>(kMostRuns, std::max(enough, 1.618 * number)));
  }
  library->number = number;
  if (runs != nullptr) *runs = number;
}

// Milliseconds of the fastest of `repeat` times.
template <typename Body>
static double Fastest(int repeat, Body body) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeat; ++i) {
    const auto begin = Clock::now();
    body();
    fastest = std::min(fastest, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  return fastest;
}

void MeasureCopies(const edge_library& library, int repeat, double* to_ms, double* from_ms) {
  if (repeat < 1) throw Usage("a measurement needs at least one run");
  *to_ms = *from_ms = 0;
  if (IsCpu(library.device)) return;
  const Any results = Call(library, library.chosen->function);
  Await(library.device);
  std::vector<Tensor> inputs, back;
  for (const Tensor& input : library.arguments) inputs.push_back(input.CopyTo(kCpu));
  Flatten(results, &back);  // memory that is touched for the first time is no part of a copy
  *to_ms = Fastest(repeat, [&] {
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor target = library.arguments[i];
      target.CopyFrom(inputs[i]);
    }
    Await(library.device);
  });
  *from_ms = Fastest(repeat, [&] {
    std::vector<Tensor> outputs;
    Flatten(results, &outputs);
  });
}

std::map<std::string, OperatorTime> Profile(edge_library* library, int runs) {
  using Clock = std::chrono::steady_clock;
  std::map<std::string, OperatorTime> operators;
  Clock::time_point begin;
  bool counting = false;
  // A virtual machine of its own (constants are shared): the measured one stays as it was.
  Module machine = NewMachine(library->executable, library->device);
  // Arguments: the function, its name, whether it is about to run, its result, its arguments.
  machine->GetFunction("set_instrument").value()(
      Function::FromPacked([&](const AnyView* arguments, int, Any* result) {
        *result = 0;
        if (arguments[2].cast<bool>()) {
          begin = Clock::now();
          return;
        }
        Await(library->device);
        const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
        const auto name = arguments[1].cast<std::string>();
        // The machine's own functions: allocation, shape checks.
        if (!counting || name.rfind("vm.", 0) == 0) return;
        ++operators[name].calls;
        operators[name].ms += took.count();
      }));
  Function main = machine->GetFunction(library->chosen->name).value();
  const WithoutGraphs each;  // operator is waited for
  Call(*library, main);
  counting = true;
  for (int i = 0; i < runs; ++i) Call(*library, main);
  return operators;
}

}  // namespace edge
