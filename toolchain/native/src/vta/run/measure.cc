#include "vta/run/measure.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "edge_rt.h"
#include "failure.h"
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

void Uploaded::Run(const std::vector<DLTensor*>& tensors) {
  const size_t many = std::min(inputs_.size(), tensors.size());
  const std::vector<DLTensor*> given(tensors.begin(), tensors.begin() + many);
  const std::vector<DLTensor*> wanted(tensors.begin() + many, tensors.end());
  const Call call(inputs_, outputs_, given, wanted);
  call.Put(loaded_->memory());
  cycles_ = loaded_->Run();
  call.Get(loaded_->memory());
}

Timed Uploaded::Time(int number, int repeat, int least_ms) {
  if (cycles_ == 0) return {Clocked(loaded_.get(), {number, repeat, least_ms}), std::nullopt};
  return {{}, Timed::Modelled{cycles_, static_cast<int>(header_.mhz), static_cast<int>(header_.model.version)}};
}

std::string Uploaded::Measure(const std::vector<DLTensor*>& tensors, const Timing& how) {
  Run(tensors);
  const Timed timed = Time(how.number, how.repeat, how.least_ms);
  std::string times;
  for (const double ms : timed.ms) times += (times.empty() ? "" : ", ") + JsonNumber(ms);
  return "{\"device\": " + Quote("vta:" + driver_) + ", \"times_ms\": [" + times + "], \"modelled\": " +
         JsonModelled(timed.modelled) + "}";
}

std::unique_ptr<DeviceProgram> LoadCandidate(const std::string& path) {
  try {
    return std::make_unique<Uploaded>(path);
  } catch (const Refusal& refusal) {
    throw Failure(EDGE_FAILED, "load", (refusal.rule == "driver" ? "" : "the program is refused: ") + std::string(refusal.what()));
  }
}

}  // namespace edge::vta
