// The part of a self-test that needs TVM.
#include <gnu/libc-version.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "api.h"
#include "cpu.h"
#include "device.h"
#include "edge_rt.h"
#include "field/selftest.h"
#include "lock.h"
#include "machine.h"
#include "text.h"

namespace edge::field {
namespace {

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

void Must(int status) {
  if (status != EDGE_OK) throw Failure(LastFailure());
}

void Same(const char* what, const std::string& needed, const std::string& here) {
  if (needed == here) return;
  Throw(EDGE_REQUIRES, "runtime", {"the release is for ", what, " ", needed, ", and this edge-rt is for ", here});
}

bool IsOlder(const std::string& one, const std::string& other) {
  const auto parts = [](std::string_view version) {
    const size_t point = std::min(version.find('.'), version.size());
    return std::pair(LeadingNumber(version.substr(0, point), INT_MAX).value_or(0),
                     LeadingNumber(version.substr(std::min(point + 1, version.size())), INT_MAX).value_or(0));
  };
  return parts(one) < parts(other);
}

}  // namespace

Computed Compute(const std::string& folder, const Release& release, const std::string& state) {
  const std::string device = release.run.device, cluster = release.run.cluster,
                    features = Joined(release.requirements.features), path = folder + "/library.so",
                    code = device.empty() || device == "cpu" ? "" : state + "/devices";
  const MeasureLock lock(state, "self-test of " + release.app, release.test.timeout_s);
  if (!code.empty()) SetDeviceFolder(code, true);
  const edge_options options{sizeof options, cluster.c_str(), features.c_str(), release.run.threads, 0,
                             device.c_str(), code.c_str(), 0};
  const std::unique_ptr<edge_library, decltype(&edge_close)> library(edge_open(path.c_str(), &options), edge_close);
  if (!library) throw Failure(LastFailure());
  for (int i = 0; i < release.inputs; ++i) {
    const Array array = ReadNpy(Cat({folder, "/sample/", i, ".npy"}));
    const edge_tensor tensor{array.dtype.c_str(), static_cast<int>(array.shape.size()), array.shape.data(),
                             array.data.data(), array.data.size()};
    Must(edge_set_input(library.get(), i, &tensor));
  }
  Computed computed;
  Must(edge_run(library.get()));
  for (int run = 0; run < release.test.runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    Must(edge_run(library.get()));
    computed.runs_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  for (int i = 0; i < edge_output_count(library.get()); ++i) {
    edge_tensor tensor;
    Must(edge_output(library.get(), i, &tensor));
    computed.outputs.push_back({tensor.dtype, {tensor.shape, tensor.shape + tensor.ndim},
                                {static_cast<const char*>(tensor.data), tensor.bytes}});
  }
  return computed;
}

void CheckRuntime(const Release& release, const std::string& state) {
  const Requirements& needs = release.requirements;
  Same("the architecture", needs.arch, Arch());
  Same("TVM", needs.tvm, TvmVersion());
  Same("tvm-ffi", needs.tvm_ffi, TvmFfiVersion());
  if (needs.glibc && IsOlder(gnu_get_libc_version(), *needs.glibc)) {
    Throw(EDGE_REQUIRES, "runtime", {"the release needs glibc ", *needs.glibc, ", and here is ", gnu_get_libc_version()});
  }
  CheckFeatures(Joined(needs.features));
  CheckFunctions(Joined(needs.functions));
  const std::string& runs_on = release.run.device;
  if (!needs.devices.empty() || runs_on != "cpu") SetDeviceFolder(state + "/devices", true);
  FindDevice(runs_on);
  for (const std::string& kind : needs.devices) {
    if (!runs_on.starts_with(kind)) FindDevice(kind);  // a simulation is found by its whole name alone
  }
}

}  // namespace edge::field
