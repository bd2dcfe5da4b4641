// The function edge.vta.measure of RPC sessions: runs and times a program that the client has sent as a file.
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <string>
#include <vector>

#include "offer.h"
#include "vta/config.h"
#include "vta/run/measure.h"
#include "vta/run/run.h"

namespace edge::vta {
namespace {

constexpr int64_t kMostRuns = 1 << 30;

// Arguments: a file's name, how often (number, repeat, least milliseconds of a repeat), inputs, outputs.
void MeasureProgram(tvm::ffi::PackedArgs arguments, tvm::ffi::Any* result) {
  int64_t often[3] = {};
  bool said = arguments.size() >= 4 && arguments[0].try_cast<tvm::ffi::String>().has_value();
  for (int i = 0; said && i < 3; ++i) {
    const auto number = arguments[1 + i].try_cast<int64_t>();
    said = number.has_value() && *number >= (i == 0) && *number <= kMostRuns;
    if (said) often[i] = *number;
  }
  std::vector<DLTensor*> tensors;
  for (int i = 4; said && i < arguments.size(); ++i) {
    const auto tensor = arguments[i].try_cast<DLTensor*>();
    said = tensor.has_value();
    if (said) tensors.push_back(*tensor);
  }
  if (!said) {
    TVM_FFI_THROW(TypeError) << "edge-rt: edge.vta.measure takes a file's name, three numbers (how many runs, one at "
                             << "least; how often; milliseconds), and tensors: the inputs, the outputs";
  }
  const std::string path = SessionFile(arguments[0].cast<std::string>());
  const Timing how{static_cast<int>(often[0]), static_cast<int>(often[1]), static_cast<int>(often[2])};
  try {
    Uploaded program(path);  // what is refused waits for nobody
    const auto lock = LockForSession();
    *result = program.Measure(tensors, how);
  } catch (const Refusal& refusal) {
    const char* what = refusal.rule == "driver" ? "" : "the program is refused: ";
    TVM_FFI_THROW(RuntimeError) << "edge.vta.measure: " << what << refusal.what();
  }
}

}  // namespace

void OfferMeasure() { OfferFunction("edge.vta.measure", MeasureProgram); }

}  // namespace edge::vta
