// The machine in software as a driver: any configuration, and the model's cycles.
#include <vector>

#include "vta/run/driver.h"

namespace edge::vta {
namespace {

// Where a simulated program's memory lies: the largest element that a configuration may have begins there, too.
constexpr uint32_t kPhysical = 0x10000;

class Simulated final : public Loaded {
 public:
  explicit Simulated(const Program& program)
      : header_(program.header), machine_(program.header.config), memory_(program.header.memory_bytes) {
    PlaceProgram(program, kPhysical, memory_.data());
  }
  uint8_t* memory() final { return memory_.data(); }
  uint64_t Run() final {
    const Arena arena{memory_.data(), header_.memory_bytes, kPhysical};
    return machine_
        .Run(memory_.data() + header_.instructions_at, header_.instructions, arena, header_.model, kLimits, {})
        .cycles;
  }

 private:
  ProgramHeader header_;
  Machine machine_;
  std::vector<uint8_t> memory_;
};

class Simulation final : public Driver {
 public:
  std::unique_ptr<Loaded> Load(const Program& program) final { return std::make_unique<Simulated>(program); }
};

}  // namespace

std::unique_ptr<Driver> NewSimulation() { return std::make_unique<Simulation>(); }

}  // namespace edge::vta
