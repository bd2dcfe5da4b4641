#include "offline/trial.h"

#include <poll.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>
#include <tvm/runtime/device_api.h>
#include <tvm/runtime/tensor.h>
#include <tvm/runtime/timer.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

#include "apart.h"
#include "cpu.h"
#include "edge_rt.h"
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
constexpr size_t kFields = 8;  // of an answer, behind each a NUL
constexpr int kRestMs = 10;  // before a candidate is timed on a CPU (docs/decisions/0102)
constexpr int kZeroTimes = 100;  // as Python's time_evaluator says by default

Tensor OnDevice(const Array& array, DLDevice device) {
  const DLDataType dtype = tvm::ffi::StringToDLDataType(array.dtype);
  Tensor tensor = Tensor::Empty(tvm::ffi::Shape(array.shape.begin(), array.shape.end()), dtype, device);
  if (!array.data.empty()) tensor.CopyFromBytes(array.data.data(), array.data.size());
  return tensor;
}

// A candidate that is loaded: how it is run and timed.
struct Subject {
  std::function<void(const std::vector<Tensor>& operands)> run;
  std::function<Timed(const std::vector<Tensor>& operands)> time;
  DLDevice memory;  // where its operands lie
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
  for (const double ms : outcome.timed.ms) times += (times.empty() ? "" : ",") + Text(ms);
  const auto& model = outcome.timed.modelled;
  const std::string modelled = model ? Cat({model->cycles, ",", model->mhz, ",", model->version}) : "";
  const Conditions& now = outcome.conditions;
  std::string packed;
  for (const std::string& field :
       {outcome.status, outcome.message.substr(0, kMostMessage), outcome.device, times, modelled, Optional(now.clock_mhz),
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
    outcome.timed.ms.push_back(*ms);
  }
  if (const std::vector<std::string> words = Split(fields[4], ','); !words.empty()) {
    const auto cycles = Number(words[0]), mhz = Number(words.size() > 1 ? words[1] : ""), version = Number(words.back());
    const auto within = [](const std::optional<double>& number, double most) { return number && *number >= 0 && *number <= most; };
    if (words.size() != 3 || !within(cycles, 0x1p53) || !within(mhz, 1 << 20) || !within(version, 0x1p31 - 1) || *mhz < 1) {
      return std::nullopt;
    }
    outcome.timed.modelled = {static_cast<uint64_t>(*cycles), static_cast<int>(*mhz), static_cast<int>(*version)};
  }
  const bool ok = outcome.status == "ok";
  if (!ok && outcome.status != "wrong result" && outcome.status != "runtime" && outcome.status != "upload") return std::nullopt;
  if (outcome.timed.modelled && !ok) return std::nullopt;
  if (outcome.timed.ms.size() != (ok && !outcome.timed.modelled ? static_cast<size_t>(repeat) : 0)) return std::nullopt;
  outcome.conditions.clock_mhz = Number(fields[5]);
  outcome.conditions.temperature_c = Number(fields[6]);
  if (const auto others = Number(fields[7])) outcome.conditions.others = static_cast<int>(*others);
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

// Leaves an output beside the members, under a name that says which it is.
void Keep(const std::string& path, const std::string& bytes) {
  std::FILE* file = std::fopen(path.c_str(), "we");
  const bool written = file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file == nullptr || std::fclose(file) != 0 || !written) throw Io("cannot write " + path);
}

// Computes a case; returns what is wrong with its outputs, empty if nothing is.
std::string Compute(const Plan& plan, const Candidate& candidate, size_t number, const Subject& subject,
                    const std::vector<Tensor>& operands) {
  const Case& given = candidate.cases[number];
  subject.run(operands);
  for (size_t at = 0; at < given.outputs.size(); ++at) {
    const Output& output = given.outputs[at];
    const Tensor& written = operands[given.inputs.size() + at];
    std::string bytes(tvm::ffi::GetDataSize(*written.operator->()), '\0');
    if (!bytes.empty()) written.CopyToBytes(bytes.data(), bytes.size());
    if (output.expected.empty()) {
      Keep(Cat({plan.members, "/output-", number, "-", at}), bytes);
      continue;
    }
    if (const std::string problem = Wrong(output, bytes, ReadNpy(plan.Member(output.expected))); !problem.empty()) {
      return problem;
    }
  }
  return "";
}

// As a session times the functions of a library.
Timed Time(const Plan& plan, const Function& function, DLDevice device, const std::vector<Tensor>& operands) {
  const Function timer = tvm::runtime::WrapTimeEvaluator(function, device, plan.number, plan.repeat, plan.min_repeat_ms,
                                                         kZeroTimes, 0, 1, 0);
  const std::vector<AnyView> arguments = Arguments(operands);
  tvm::ffi::Any result;
  timer.CallPacked(arguments.data(), static_cast<int>(arguments.size()), &result);
  const auto bytes = result.cast<tvm::ffi::Bytes>();
  Timed timed{std::vector<double>(bytes.size() / sizeof(double)), std::nullopt};
  std::memcpy(timed.ms.data(), bytes.data(), timed.ms.size() * sizeof(double));
  for (double& each : timed.ms) each *= 1e3;
  return timed;
}

std::string DeviceName(const Found& found) {
  if (found.kind->name == std::string("cpu")) return "";
  if (found.device.device_type == kDLCPU) return found.name;
  const Presence presence = found.kind->probe();
  const size_t number = found.device.device_id;
  return number < presence.names.size() ? presence.names[number] : "";
}

Subject LoadedLibrary(const Plan& plan, const Candidate& candidate, const Found& found) {
  const std::string path = plan.Member(candidate.library);
  CheckLibrary(path);
  Apply(Place(plan.threads, plan.cluster), kSpinUs);
  const tvm::ffi::Module library = LoadLibrary(path);
  const auto named = library->GetFunction(candidate.function);
  if (!named.has_value()) throw Failure(EDGE_FAILED, "load", "its library has no function " + candidate.function);
  const DLDevice memory = candidate.memory == "cpu" ? DLDevice{kDLCPU, 0} : found.device;
  const Function function = named.value();  // it keeps the library
  const auto run = [function](const std::vector<Tensor>& operands) {
    const std::vector<AnyView> arguments = Arguments(operands);
    tvm::ffi::Any nothing;
    function.CallPacked(arguments.data(), static_cast<int>(arguments.size()), &nothing);
  };
  return {run, [&plan, function, memory](const auto& operands) { return Time(plan, function, memory, operands); }, memory};
}

Subject LoadedProgram(const Plan& plan, const Candidate& candidate, const Found& found) {
  if (found.kind->load == nullptr) throw Failure(EDGE_FAILED, "load", found.name + " runs libraries, and no programs of its own");
  const std::shared_ptr<DeviceProgram> program = found.kind->load(plan.Member(candidate.library));
  const auto run = [program](const std::vector<Tensor>& operands) {
    std::vector<DLTensor*> tensors;
    for (const Tensor& each : operands) tensors.push_back(const_cast<DLTensor*>(each.operator->()));
    program->Run(tensors);
  };
  const auto time = [&plan, program](const auto&) { return program->Time(plan.number, plan.repeat, plan.min_repeat_ms); };
  return {run, time, DLDevice{kDLCPU, 0}};
}

void Run(const Plan& plan, const Candidate& candidate, const std::string& device, Outcome* outcome) {
  outcome->status = "upload";
  const Found found = FindDevice(device);
  const Computing computing(device);
  outcome->device = DeviceName(found);
  const bool program = candidate.function.empty();
  if (program) outcome->status = "runtime";  // what refuses it would run it
  const Subject subject = program ? LoadedProgram(plan, candidate, found) : LoadedLibrary(plan, candidate, found);
  std::vector<Tensor> operands;
  for (size_t number = candidate.cases.size(); number-- > 0;) {
    outcome->status = "upload";
    operands = Operands(plan, candidate.cases[number], subject.memory);
    outcome->status = "runtime";
    outcome->message = Compute(plan, candidate, number, subject, operands);
    if (!outcome->message.empty()) {
      outcome->status = "wrong result";
      return;
    }
  }
  // Whoever has just computed is interrupted more often, where others compute, too: drawing and comparing were its work.
  if (subject.memory.device_type == kDLCPU) poll(nullptr, 0, kRestMs);
  outcome->timed = subject.time(operands);
  outcome->conditions = ConditionsOf(subject.memory).value_or(Conditions{});
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
  for (const double ms : outcome.timed.ms) times += (times.empty() ? "" : ", ") + Text(ms);
  return "{\"candidate\": " + Quote(candidate.digest) + ", \"failure\": " + (ok ? "null" : Quote(outcome.status)) +
         ", \"ms\": [" + times + "], \"modelled\": " + JsonModelled(outcome.timed.modelled) + ", \"message\": " + Quote(outcome.message) + ", \"device\": " + Quote(outcome.device) +
         ", \"governor\": " + outcome.governor + ", \"temperature_c\": " + outcome.temperature +
         ", \"conditions\": " + JsonConditions(outcome.conditions) + "}";
}

}  // namespace edge::offline
