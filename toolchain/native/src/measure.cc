#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>

#include "api.h"
#include "cpu.h"
#include "device.h"
#include "edge_rt.h"
#include "lock.h"
#include "machine.h"
#include "memory.h"
#include "npy.h"
#include "pool.h"
#include "queue.h"
#include "text.h"

namespace edge {
namespace {

using Clock = std::chrono::steady_clock;
using Library = std::unique_ptr<edge_library, decltype(&edge_close)>;

void Check(int status) {
  if (status != EDGE_OK) throw Failure(LastFailure());
}

// Holds the lock, then loads: two libraries never load or run at once on a board.
struct Session {
  explicit Session(const Options& options, const std::string& command)
      : without_graphs(GraphsOff(options)),
        path(Checked(options)),
        arrays(Inputs(options)),
        spin_us(options.Int("spin-us", kSpinUs, 0, kMostSpinUs)),
        lock(options.State(true), command + " " + path, options.Seconds("wait", 0), ForWhom(options)),
        library(Open(options), edge_close) {
    if (edge_input_count(library.get()) != static_cast<int>(arrays.size())) {
      throw Usage(path + " takes " + Counted(edge_input_count(library.get()), "input") +
                  ", --input gives " + std::to_string(arrays.size()));
    }
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Array& array = arrays[i];
      const edge_tensor tensor{array.dtype.c_str(), static_cast<int>(array.shape.size()),
                               array.shape.data(), array.data.data(), array.data.size()};
      Check(edge_set_input(library.get(), static_cast<int>(i), &tensor));
    }
  }

  // To close it puts tensors into TVM's pool, which allocates, in a destructor: where that is refused the program would
  // be aborted, its answer unwritten. What it holds on the CPU ends with this program; other devices keep theirs.
  ~Session() {
    if (device.name == "cpu") static_cast<void>(library.release());  // NOLINT(bugprone-unused-return-value): left open
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::string Device() const { return "\"device\": " + Quote(device.name); }

  static std::optional<WithoutGraphs> GraphsOff(const Options& options) {
    const std::string word = options.Text("graph", "on");
    if (word != "on" && word != "off") throw Usage("--graph " + word + ": on or off");
    if (word == "on") return std::nullopt;
    return std::optional<WithoutGraphs>(std::in_place);
  }

  // What is refused needs no lock to be refused.
  std::string Checked(const Options& options) {
    CheckFeatures(options.Text("requires", ""));
    const std::string name = options.Text("device", "");
    if (!name.empty()) SetDeviceFolder(DeviceCode(options), true);
    device = FindDevice(name);
    CheckFunctions(options.Text("functions", ""));
    CheckLibrary(options.Only("library"));
    return options.Only("library");
  }

  static std::string DeviceCode(const Options& options) { return options.State(true) + "/devices"; }

  // The name is the caller's word for the input: they are matched in the order given.
  static std::vector<Array> Inputs(const Options& options) {
    std::vector<Array> arrays;
    for (const std::string& input : options.All("input")) {
      const size_t equals = input.find('=');
      arrays.push_back(ReadNpy(equals == input.npos ? input : input.substr(equals + 1)));
    }
    return arrays;
  }

  edge_library* Open(const Options& options) const {
    const std::string cluster = options.Text("cluster", ""), needs = options.Text("requires", "");
    const std::string name = options.Text("device", "");
    const std::string code = name.empty() ? "" : DeviceCode(options);
    const edge_options given{sizeof given,
                             cluster.c_str(),
                             needs.c_str(),
                             options.Int("threads", 0, 1, 1024),
                             spin_us == 0 ? -1 : spin_us,
                             name.c_str(),
                             code.c_str(),
                             options.Has("pad")};
    edge_library* opened = edge_open(path.c_str(), &given);
    if (opened == nullptr) throw Failure(LastFailure());
    return opened;
  }

  std::string Threads() const {
    int count = 0;
    const int* cpus = edge_cpus(library.get(), &count);
    return "\"threads\": " + std::to_string(edge_threads(library.get())) + ", \"cpus\": " +
           (cpus == nullptr ? "null" : JsonArray(std::vector<int>(cpus, cpus + count))) +
           ", \"spin_us\": " + std::to_string(PoolSpinUs());
  }

  std::optional<WithoutGraphs> without_graphs;
  Found device;  // before `path`: what checks the options sets it
  std::string path;
  std::vector<Array> arrays;
  int spin_us;
  MeasureLock lock;
  Library library;
};

std::vector<std::string> OutputNames(const Options& options, int count) {
  std::vector<std::string> names = Split(options.Text("output-names", ""), ',');
  if (names.empty()) {
    for (int i = 0; i < count; ++i) names.push_back("output_" + std::to_string(i));
  }
  if (static_cast<int>(names.size()) != count) {
    throw Usage("--output-names gives " + Counted(static_cast<int64_t>(names.size()), "name") + " for " +
                Counted(count, "output"));
  }
  if (std::set<std::string>(names.begin(), names.end()).size() != names.size()) {
    throw Usage("--output-names gives a name twice");
  }
  return names;
}

void AddOperator(void* context, const char* name, double calls, double ms) {
  static_cast<std::vector<std::pair<double, std::string>>*>(context)->emplace_back(
      ms, "{\"name\": " + Quote(name) + ", \"calls\": " + JsonNumber(calls) +
              ", \"ms\": " + JsonNumber(ms) + "}");
}

// The slowest first.
std::string Operators(edge_library* library, int runs) {
  std::vector<std::pair<double, std::string>> operators;
  Check(edge_profile(library, runs, AddOperator, &operators));
  std::stable_sort(operators.begin(), operators.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string list;
  for (const auto& entry : operators) list += (list.empty() ? "" : ", ") + entry.second;
  return "[" + list + "]";
}

constexpr int kCopies = 10;

// Between the host's memory and the device's, which the samples leave out; "null" where there are none.
std::string Copies(edge_library* library) {
  double to_ms = 0, from_ms = 0;
  Check(edge_measure_copies(library, kCopies, &to_ms, &from_ms));
  if (to_ms == 0 && from_ms == 0) return "null";
  return "{\"to_device\": " + JsonNumber(to_ms) + ", \"from_device\": " + JsonNumber(from_ms) + "}";
}

// Of one inference, by the model of a device that is simulated; else "null". It is no time of a board's.
std::string ModelledTime(edge_library* library, const Found& device) {
  if (!device.simulated || device.kind->modelled == nullptr) return "null";
  device.kind->modelled();  // forgets what ran before
  Check(edge_run(library));
  return device.kind->modelled();
}

}  // namespace

int RunCommand(const Options& options) {
  const std::string output = options.Text("output", "");
  if (output.empty()) throw Usage("no --output given");
  // The first inference sets up what later ones use: a graph of kernels is launched from the second one on.
  const int warmup = options.Int("warmup", 0, 0, 1 << 30);
  Session session(options, "run");
  for (int i = 0; i < warmup; ++i) Check(edge_run(session.library.get()));
  const auto begin = Clock::now();
  Check(edge_run(session.library.get()));
  const std::chrono::duration<double, std::milli> took = Clock::now() - begin;

  const int count = edge_output_count(session.library.get());
  const std::vector<std::string> names = OutputNames(options, count);
  std::vector<NamedArray> arrays;
  std::string list;
  for (int i = 0; i < count; ++i) {
    edge_tensor tensor;
    Check(edge_output(session.library.get(), i, &tensor));
    std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    std::string extents;
    for (int64_t extent : shape) extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
    list += (list.empty() ? "" : ", ") + ("{\"name\": " + Quote(names[i])) + ", \"shape\": [" +
            extents + "], \"dtype\": " + Quote(tensor.dtype) + "}";
    arrays.push_back({names[i], tensor.dtype, shape, tensor.data, tensor.bytes});
  }
  WriteNpz(output, arrays);
  std::printf("{\"outputs\": [%s], %s, %s, \"ms\": %s}\n", list.c_str(), session.Device().c_str(),
              session.Threads().c_str(), JsonNumber(took.count()).c_str());
  return EDGE_OK;
}

int BenchCommand(const Options& options) {
  const int number = options.Int("number", 1, 1, 1 << 30);
  const int repeat = options.Int("repeat", 10, 1, 1 << 30);
  const int min_ms = options.Int("min-repeat-ms", 0, 0, 1 << 30);
  const int warmup = options.Int("warmup", 1, 0, 1 << 30);
  const double budget = options.Seconds("time", 1e9);
  Session session(options, "bench");
  const auto begin = Clock::now();
  for (int i = 0; i < warmup; ++i) Check(edge_run(session.library.get()));
  std::string times;
  int taken = 0, runs = 0;
  do {
    double ms = 0;
    Check(edge_measure(session.library.get(), number, min_ms, &ms, &runs));
    times += (times.empty() ? "" : ", ") + JsonNumber(ms);
  } while (++taken < repeat &&
           std::chrono::duration<double>(Clock::now() - begin).count() < budget);
  const bool graph = GraphsBegun() > 0;
  const std::string copies = Copies(session.library.get());
  const std::string modelled = ModelledTime(session.library.get(), session.device);
  const std::string peak = JsonNumber(PeakRssMib());
  std::string document =
      "{\"times_ms\": [" + times + "], \"number\": " + std::to_string(runs) +
      ", \"runs\": " + std::to_string(taken) + ", " + session.Device() + ", \"modelled\": " + modelled +
      ", " + session.Threads() + ", \"cluster\": " +
      (options.Has("cluster") ? Quote(options.Text("cluster", "")) : "null") +
      ", \"graph\": " + (graph ? "true" : "false") + ", \"copies_ms\": " + copies + ", \"peak_rss_mib\": " + peak + ", \"governor\": " + Governor() +
      ", \"temperature_c\": " + TemperatureC();
  if (options.Has("profile")) {
    document += ", \"operators\": " + Operators(session.library.get(), std::clamp(taken, 3, 10));
  }
  std::printf("%s}\n", document.c_str());
  return EDGE_OK;
}

}  // namespace edge
