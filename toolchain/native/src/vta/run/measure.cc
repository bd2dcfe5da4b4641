#include "vta/run/measure.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "file.h"
#include "text.h"
#include "vta/request.h"
#include "vta/run/call.h"
#include "vta/run/run.h"

namespace edge::vta {
namespace {

constexpr int64_t kLargestFile = int64_t{kLargestArena} + (1 << 20);

std::vector<uint8_t> Contents(const std::string& path) {
  const File file(path);
  const int64_t size = file.Size();
  if (size < 0) throw Refusal("program", "there is no such file in the session: it must be sent first");
  if (size > kLargestFile) throw Refusal("program", "it has " + std::to_string(size) + " bytes, more than any has");
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  const ssize_t got = ReadWhole(file.fd(), bytes.data(), bytes.size());
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));  // what is missing is seen in it
  return bytes;
}

}  // namespace

Uploaded::Uploaded(const std::string& path) : driver_(DriverName()) {
  const std::vector<uint8_t> bytes = Contents(path);
  const Program program = ReadProgram(bytes.data(), bytes.size());
  loaded_ = FindDriver(driver_).Load(program);
  header_ = program.header;
  inputs_ = program.inputs;
  outputs_ = program.outputs;
}

std::string Uploaded::Measure(const std::vector<DLTensor*>& tensors, const Timing& how) {
  const size_t many = std::min(inputs_.size(), tensors.size());
  const std::vector<DLTensor*> given(tensors.begin(), tensors.begin() + many);
  const std::vector<DLTensor*> wanted(tensors.begin() + many, tensors.end());
  const Call call(inputs_, outputs_, given, wanted);
  call.Put(loaded_->memory());
  const uint64_t cycles = loaded_->Run();
  call.Get(loaded_->memory());
  std::string times, modelled = "null";
  if (cycles == 0) {
    for (const double ms : Clocked(loaded_.get(), how)) times += (times.empty() ? "" : ", ") + JsonNumber(ms);
  } else {
    modelled = "{\"ms\": " + JsonNumber(static_cast<double>(cycles) / header_.mhz / 1000) +
               ", \"cycles\": " + std::to_string(cycles) + ", \"mhz\": " + std::to_string(header_.mhz) +
               ", \"version\": " + std::to_string(header_.model.version) + "}";
  }
  return "{\"device\": " + Quote("vta:" + driver_) + ", \"times_ms\": [" + times + "], \"modelled\": " + modelled + "}";
}

}  // namespace edge::vta
