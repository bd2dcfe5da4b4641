// What networks run on: the CPU, and kinds of devices that register themselves. A kind is a file or a folder of
// its own and a line in CMakeLists.txt; without both it is gone (docs/howto/add-a-device.md). The CPU alone cannot
// be taken away: a network's host code runs on it, whatever device computes.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace edge {

class Options;

// The devices of one kind that are here.
struct Presence {
  std::vector<std::string> names = {};    // in the order of their numbers, as their driver calls them
  std::string problem = {};               // where there are none: why
  std::vector<std::string> details = {};  // a JSON object for each name; or none, where there is no more to say
  // So many, the last of them, only compute what a device would: they are taken by their names alone. Where
  // there are no others, `problem` says why.
  size_t simulated = 0;
};

// What a device says of itself just after it computed; what it doesn't know is none.
struct Conditions {
  std::optional<double> clock_mhz, temperature_c;
  std::optional<int> others;  // other processes that compute on it
};

// How long a candidate took: milliseconds by the clock, a mean for each repeat; or, of what only simulates, what the kind's
// model says of one run.
struct Timed {
  struct Modelled {
    uint64_t cycles;
    int mhz, version;  // of the model
  };
  std::vector<double> ms;
  std::optional<Modelled> modelled;
};

// A program of a device's own, loaded to be tried.
class DeviceProgram {
 public:
  virtual ~DeviceProgram() = default;
  // Runs it once on the inputs, which come first, and fills the outputs.
  virtual void Run(const std::vector<DLTensor*>& tensors) = 0;
  // After a run: `repeat` times, each the mean of `number` runs, and of more until `least_ms` have passed.
  virtual Timed Time(int number, int repeat, int least_ms) = 0;
};

struct DeviceKind {
  const char* name;   // a word, as edge_options.device, `edge-rt info` and bundles have it
  DLDeviceType type;  // where its tensors lie; kDLCPU: in the host's memory, whatever computes
  // Looks anew each time, and keeps nothing of a driver open (no context, no queue). The server that
  // forks sessions never calls it, for some drivers start threads when they are first asked.
  Presence (*probe)();
  // It opens a driver, which may take its time, crash or never return: it is asked only when its devices
  // are asked for.
  bool driver = false;

  // Hooks: the rest of edge-rt calls them and knows no kind by its name. Null where a kind has no use for one.

  // Called for each constant of a library, in the host's memory, before its bytes are there. Returns what the kind
  // keeps for that constant, which is deleted just before the constant's memory is freed; null: nothing.
  std::shared_ptr<void> (*keep)(const DLTensor& constant) = nullptr;
  // Returns, as a JSON object, how long all that the calling thread has simulated since the last call takes by the
  // kind's model; "null" if it simulated nothing.
  std::string (*modelled)() = nullptr;
  // Registers the functions that the client of an RPC session is given (offer.h). Called once, in the session's
  // own process.
  void (*offer)() = nullptr;
  // Loads a candidate that is no library, but a program for the device that the calling thread computes on. Throws for a
  // file that is none.
  std::unique_ptr<DeviceProgram> (*load)(const std::string& path) = nullptr;
  // Says how a device is that this process has computed on, by its number.
  Conditions (*conditions)(int number) = nullptr;
  // Runs `edge-rt NAME`, a verb of the kind's own; returns the exit code.
  int (*verb)(const Options& options) = nullptr;
};

// At file scope, in the kind's own file.
class RegisterDevice {
 public:
  explicit RegisterDevice(const DeviceKind& kind);
};

// A device that is here: where its tensors lie, and its word for results: as it was asked for or, of a kind that has
// simulations, with its name, as in "vta:sim".
struct Found {
  DLDevice device;
  std::string name;
  const DeviceKind* kind;
  bool simulated;
};

// The device of a name: "" or "cpu"; a kind; a kind and a number, as in "opencl:1"; or a kind and a name. Throws
// EDGE_USAGE for another form, and EDGE_REQUIRES for one that is not here, with those that are.
Found FindDevice(const std::string& name);

// Until the end of the block, the calling thread's network computes on a device that FindDevice named: packed functions
// ask for it.
class Computing {
 public:
  explicit Computing(const std::string& name);
  ~Computing();
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

 private:
  std::string before_;
};

// "" where no network said it.
const std::string& ComputesOn();

// Until the end of the block, what the calling thread computes is begun kernel by kernel, where a device would
// otherwise begin a network as a whole.
class WithoutGraphs {
 public:
  WithoutGraphs();
  ~WithoutGraphs();
  WithoutGraphs(const WithoutGraphs&) = delete;
  WithoutGraphs& operator=(const WithoutGraphs&) = delete;
};

bool UsesGraphs();

// How often the calling thread has begun a network, or most of it, as a whole. Devices count each time.
void CountGraph();
long GraphsBegun();

// All kinds, the CPU first.
const std::list<DeviceKind>& DeviceKinds();

// What a model says of one run, as JSON; "null" for what was timed by a clock.
std::string JsonModelled(const std::optional<Timed::Modelled>& modelled);
// "null" where the kind can't say.
std::string JsonConditions(const std::optional<Conditions>& conditions);
// Of the device where tensors lie; none where its kind can't say.
std::optional<Conditions> ConditionsOf(DLDevice device);

// From here on this process knows of a kind's devices just one, as the first: "cuda:1". Said before the first device is
// asked for. Several boards of a machine have a device each by it. Throws EDGE_USAGE for another form.
void UseOnly(const std::string& name);
// The number of the kind's only device, among those that its driver names; none where all may be used.
std::optional<size_t> OnlyNumber(const std::string& kind);

// Leaves of a kind's devices the one that this process is to know.
template <typename Each>
void KeepOnly(const std::string& kind, std::vector<Each>* devices, std::string* problem) {
  const auto number = OnlyNumber(kind);
  if (!number || devices->empty()) return;
  if (*number >= devices->size()) {
    *problem = "this board is to compute on " + kind + ":" + std::to_string(*number) + ", and the last one here is " +
               kind + ":" + std::to_string(devices->size() - 1);
    devices->clear();
    return;
  }
  *devices = {(*devices)[*number]};
}

// Kinds as JSON, the CPU first: the names and, where there are none but simulations, the problem. Without
// `drivers` only the kinds that need none.
std::string JsonDevices(bool drivers);
std::string JsonKind(const char* name, const Presence& presence);

// Where drivers may write, and whether what they compile is kept there for the next process. Said before
// the first device is asked for; "" for nowhere.
void SetDeviceFolder(const std::string& folder, bool keep);
std::string DeviceFolder();
bool KeepsDeviceCode();

}  // namespace edge
