#include "offline/trial.h"

#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/tensor.h>
#include <tvm/runtime/timer.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "apart.h"
#include "cpu.h"
#include "failure.h"
#include "load.h"
#include "machine.h"
#include "npy.h"
#include "offline/compare.h"
#include "pool.h"
#include "text.h"

namespace edge::offline {
namespace {

using tvm::ffi::AnyView;
using tvm::ffi::Function;
using tvm::runtime::Tensor;

constexpr size_t kMostAnswer = 64 << 10, kMostMessage = 2000;
constexpr size_t kFields = 7;  // of an answer, behind each a NUL
constexpr int kZeroTimes = 100;  // as Python's time_evaluator says by default

Tensor OnDevice(const Array& array, DLDevice device) {
  const DLDataType dtype = tvm::ffi::StringToDLDataType(array.dtype);
  Tensor tensor = Tensor::Empty(tvm::ffi::Shape(array.shape.begin(), array.shape.end()), dtype, device);
  if (!array.data.empty()) tensor.CopyFromBytes(array.data.data(), array.data.size());
  return tensor;
}

struct Loaded {
  Function function;
  DLDevice device;
};

std::string Text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string Optional(const std::optional<double>& value) { return value ? Text(*value) : ""; }

// What the child sends: the parent takes nothing else.
std::string Pack(const Outcome& outcome) {
  std::string times;
  for (const double ms : outcome.ms) times += (times.empty() ? "" : ",") + Text(ms);
  const Conditions& now = outcome.conditions;
  std::string packed;
  for (const std::string& field :
       {outcome.status, outcome.message.substr(0, kMostMessage), outcome.device, times, Optional(now.clock_mhz),
        Optional(now.temperature_c), now.others ? std::to_string(*now.others) : std::string()}) {
    packed += std::string(field.c_str()) + '\0';
  }
  return packed;
}

std::optional<double> Number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Nothing where the candidate has spoiled what its process says.
std::optional<Outcome> Unpack(const std::string& packed, int repeat) {
  std::vector<std::string> fields;
  for (size_t at = 0, end; (end = packed.find('\0', at)) != packed.npos; at = end + 1) {
    fields.push_back(packed.substr(at, end - at));
  }
  if (fields.size() != kFields || packed.back() != '\0') return std::nullopt;
  Outcome outcome{fields[0], fields[1].substr(0, kMostMessage), fields[2].substr(0, 256), {}, {}, "", ""};
  for (const std::string& text : Split(fields[3], ',')) {
    const auto ms = Number(text);
    if (!ms || *ms < 0) return std::nullopt;
    outcome.ms.push_back(*ms);
  }
  const bool ok = outcome.status == "ok";
  if (!ok && outcome.status != "wrong result" && outcome.status != "runtime" && outcome.status != "upload") return std::nullopt;
  if (outcome.ms.size() != (ok ? static_cast<size_t>(repeat) : 0)) return std::nullopt;
  outcome.conditions.clock_mhz = Number(fields[4]);
  outcome.conditions.temperature_c = Number(fields[5]);
  if (const auto others = Number(fields[6])) outcome.conditions.others = static_cast<int>(*others);
  return outcome;
}

std::vector<Tensor> Operands(const Plan& plan, const Case& given, DLDevice device) {
  std::vector<Tensor> operands;
  for (const Operand& input : given.inputs) operands.push_back(OnDevice(Made(input, plan.Member(input.member)), device));
  for (const Output& output : given.outputs) operands.push_back(OnDevice(Unwritten(output), device));
  return operands;
}

// As a session passes them.
std::vector<AnyView> Arguments(const std::vector<Tensor>& operands) {
  std::vector<AnyView> arguments;
  for (const Tensor& each : operands) arguments.emplace_back(const_cast<DLTensor*>(each.operator->()));
  return arguments;
}

// Computes a case; returns what is wrong with its outputs, empty if nothing is.
std::string Compute(const Plan& plan, const Case& given, const Loaded& loaded, const std::vector<Tensor>& operands) {
  const std::vector<AnyView> arguments = Arguments(operands);
  tvm::ffi::Any nothing;
  loaded.function.CallPacked(arguments.data(), static_cast<int>(arguments.size()), &nothing);
  for (size_t at = 0; at < given.outputs.size(); ++at) {
    const Tensor& written = operands[given.inputs.size() + at];
    std::string bytes(tvm::ffi::GetDataSize(*written.operator->()), '\0');
    if (!bytes.empty()) written.CopyToBytes(bytes.data(), bytes.size());
    if (const std::string problem = Wrong(given.outputs[at], bytes, ReadNpy(plan.Member(given.outputs[at].expected)));
        !problem.empty()) {
      return problem;
    }
  }
  return "";
}

std::vector<double> Time(const Plan& plan, const Loaded& loaded, const std::vector<Tensor>& operands) {
  const Function timer = tvm::runtime::WrapTimeEvaluator(loaded.function, loaded.device, plan.number, plan.repeat,
                                                         plan.min_repeat_ms, kZeroTimes, 0, 1, 0);
  const std::vector<AnyView> arguments = Arguments(operands);
  tvm::ffi::Any result;
  timer.CallPacked(arguments.data(), static_cast<int>(arguments.size()), &result);
  const auto bytes = result.cast<tvm::ffi::Bytes>();
  std::vector<double> ms(bytes.size() / sizeof(double));
  std::memcpy(ms.data(), bytes.data(), ms.size() * sizeof(double));
  for (double& each : ms) each *= 1e3;
  return ms;
}

std::string DeviceName(const Found& found) {
  if (found.device.device_type == kDLCPU) return "";
  const Presence presence = found.kind->probe();
  const size_t number = found.device.device_id;
  return number < presence.names.size() ? presence.names[number] : "";
}

// The way of a session (session.cc), and of the client that it has.
void Run(const Plan& plan, const Candidate& candidate, const std::string& device, Outcome* outcome) {
  outcome->status = "upload";
  const Found found = FindDevice(device);
  outcome->device = DeviceName(found);
  const std::string path = plan.Member(candidate.library);
  CheckLibrary(path);
  Apply(Place(plan.threads, plan.cluster), kSpinUs);
  const tvm::ffi::Module library = LoadLibrary(path);
  const auto function = library->GetFunction(candidate.function);
  if (!function.has_value()) throw Failure(1, "load", "its library has no function " + candidate.function);
  const DLDevice memory = candidate.memory == "cpu" ? DLDevice{kDLCPU, 0} : found.device;
  const Loaded loaded{function.value(), memory};
  std::vector<Tensor> operands;
  for (auto given = candidate.cases.rbegin(); given != candidate.cases.rend(); ++given) {
    outcome->status = "upload";
    operands = Operands(plan, *given, memory);
    outcome->status = "runtime";
    outcome->message = Compute(plan, *given, loaded, operands);
    if (!outcome->message.empty()) {
      outcome->status = "wrong result";
      return;
    }
  }
  outcome->ms = Time(plan, loaded, operands);
  outcome->conditions = ConditionsOf(memory).value_or(Conditions{});
  outcome->status = "ok";
}

Outcome Failed(const char* status, const std::string& message) { return {status, message, "", {}, {}, "", ""}; }

Outcome TryApart(const Plan& plan, const Candidate& candidate, const std::string& device, int client) {
  const auto work = [&]() -> std::string {
    Outcome outcome;
    try {
      Run(plan, candidate, device, &outcome);
    } catch (const tvm::ffi::Error& error) {
      outcome.message = error.message();
    } catch (const std::exception& error) {
      outcome.message = error.what();
    }
    return Pack(outcome);
  };
  const Ended ended = RunApart(work, candidate.limit_s, kMostAnswer, client);
  if (!ended.in_time) return Failed("timeout", "not done within " + Text(candidate.limit_s) + " s");
  if (ended.signal != 0) return Failed("runtime", std::string("it ended its process: ") + strsignal(ended.signal));
  if (const auto outcome = Unpack(ended.answer, plan.repeat)) return *outcome;
  return Failed("runtime", "it spoiled what its process says");
}

}  // namespace

Outcome Try(const Plan& plan, const Candidate& candidate, const std::string& device, int client) {
  const std::string governor = Governor(), temperature = TemperatureC();
  Outcome outcome = TryApart(plan, candidate, device, client);
  outcome.governor = governor;
  outcome.temperature = temperature;
  return outcome;
}

std::string Line(const Candidate& candidate, const Outcome& outcome) {
  const bool ok = outcome.status == "ok";
  std::string times;
  for (const double ms : outcome.ms) times += (times.empty() ? "" : ", ") + Text(ms);
  return "{\"candidate\": " + Quote(candidate.digest) + ", \"failure\": " + (ok ? "null" : Quote(outcome.status)) +
         ", \"ms\": [" + times + "], \"message\": " + Quote(outcome.message) + ", \"device\": " + Quote(outcome.device) +
         ", \"governor\": " + outcome.governor + ", \"temperature_c\": " + outcome.temperature +
         ", \"conditions\": " + JsonConditions(outcome.conditions) + "}";
}

}  // namespace edge::offline
