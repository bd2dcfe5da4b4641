// The kind of device `vta`, and its drivers.
#include <map>
#include <mutex>

#include "vta/command.h"
#include "vta/run/driver.h"
#include "vta/run/measure.h"
#include "vta/run/pynq.h"
#include "vta/run/run.h"

namespace edge::vta {

Driver& FindDriver(const std::string& name) {
  static auto* mutex = new std::mutex;
  static auto* drivers = new std::map<std::string, std::unique_ptr<Driver>>;  // kept to the end: threads may run on
  const std::lock_guard lock(*mutex);
  std::unique_ptr<Driver>& driver = (*drivers)[name];
  if (driver == nullptr) driver = name == "sim" ? NewSimulation() : OpenPynq({});
  return *driver;
}

Presence FindVtas() {
  const std::string problem = PynqProblem({});
  Presence found{{"sim"}, problem, {}, 1};
  if (problem.empty()) found.names.insert(found.names.begin(), "pynq");
  return found;
}

namespace {

const RegisterDevice registered({.name = "vta",
                                 .type = kDLCPU,
                                 .probe = FindVtas,
                                 .keep = KeepProgram,
                                 .modelled = TakeModelled,
                                 .offer = OfferMeasure,
                                 .load = LoadCandidate,
                                 .verb = VtaCommand});

}  // namespace
}  // namespace edge::vta
