// Drivers of edge-rt where there is no accelerator: FAKE registers, whose accelerator is the machine in software, and
// FAKE contiguous memory, which is a file. Nothing here says how silicon behaves.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "vta/request.h"
#include "vta/run/clock.h"
#include "vta/run/pynq.h"

namespace edge::vta {
namespace {

constexpr uint32_t kDram = 0x30000000;  // where the fake memory lies

std::vector<uint8_t> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::vector<uint8_t>((std::istreambuf_iterator<char>(file)), {});
}

PynqPlaces Places(const std::string& folder) {
  PynqPlaces places;
  places.registers = folder + "/mem";
  places.machine = folder + "/compatible";
  places.design = folder + "/vta-design";
  places.memory = {folder + "/class", folder + "/dev", folder + "/libcma.so"};
  return places;
}

// Writes down what is done to it. It computes in the file of the fake memory, as an accelerator would.
class FakeRegisters final : public Registers {
 public:
  FakeRegisters(const std::string& dram, const ProgramHeader& header, bool finishes)
      : header_(header), finishes_(finishes) {
    const int fd = open(dram.c_str(), O_RDWR);
    bytes_ = static_cast<uint32_t>(lseek(fd, 0, SEEK_END));
    memory_ = static_cast<uint8_t*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  void Write(uint32_t address, uint32_t value) final {
    std::printf("write %08x %x\n", address, value);
    if (address == 0x43C00010) count_ = value;
    if (address == 0x43C00018) address_ = value;
    if (address == 0x43C03000 && value == 0x81 && finishes_) Compute();
  }
  uint32_t Read(uint32_t address) final {
    std::printf("read %08x\n", address);
    return done_ && ++polls_ % 3 == 0 ? 1 : 0;
  }
  void Take(double) final { std::printf("take\n"); }
  void Release() final { std::printf("release\n"); }

 private:
  void Compute() {
    Machine machine(header_.config);
    const Arena arena{memory_, bytes_, kDram};
    machine.Run(memory_ + (address_ - kDram), count_, arena, header_.model, kLimits, {true, true});
    done_ = true;
  }

  ProgramHeader header_;
  bool finishes_, done_ = false;
  uint8_t* memory_;
  uint32_t bytes_, count_ = 0, address_ = 0;
  int polls_ = 0;
};

// FOLDER PROGRAM INPUTS OUTPUTS RUNS: all inputs, one behind the other, and so the outputs of the last run.
int OnFake(char** words, bool finishes) {
  const PynqPlaces places = Places(words[0]);
  const std::vector<uint8_t> bytes = ReadFile(words[1]), inputs = ReadFile(words[2]);
  const Program program = ReadProgram(bytes.data(), bytes.size());
  const auto driver = NewPynq(
      std::make_unique<FakeRegisters>(places.memory.devices + "/udmabuf0", program.header, finishes),
      OpenContiguous(places.memory, true), ReadDesign(places.design), finishes ? 60 : 0.2);
  const std::unique_ptr<Loaded> loaded = driver->Load(program);
  for (int i = 0; i < std::atoi(words[4]); ++i) {
    size_t at = 0;
    for (const Value& each : program.inputs) {
      std::memcpy(loaded->memory() + each.offset, &inputs[at], each.bytes);
      at += each.bytes;
    }
    try {
      loaded->Run();
    } catch (const Refusal& refusal) {
      if (finishes) throw;
      std::printf("refused %s\n", refusal.what());
    }
  }
  std::ofstream out(words[3], std::ios::binary);
  for (const Value& each : program.outputs) {
    out.write(reinterpret_cast<const char*>(loaded->memory() + each.offset), each.bytes);
  }
  return 0;
}

// FOLDER PROGRAM NUMBER REPEAT LEAST_MS: the clock round the runs of a program; how often it ran, and the means.
int Clock(char** words) {
  const PynqPlaces places = Places(words[0]);
  const std::vector<uint8_t> bytes = ReadFile(words[1]);
  const Program program = ReadProgram(bytes.data(), bytes.size());
  const auto driver =
      NewPynq(std::make_unique<FakeRegisters>(places.memory.devices + "/udmabuf0", program.header, true),
              OpenContiguous(places.memory, true), ReadDesign(places.design), 60);
  const std::unique_ptr<Loaded> loaded = driver->Load(program);
  const Timing how{std::atoi(words[2]), std::atoi(words[3]), std::atoi(words[4])};
  for (const double ms : Clocked(loaded.get(), how)) std::printf("ms %.6f\n", ms);
  return 0;
}

// FOLDER PROGRAM: as many copies of a program as there is room for, one gone, and one more.
int Exhaust(char** words) {
  const PynqPlaces places = Places(words[0]);
  const std::vector<uint8_t> bytes = ReadFile(words[1]);
  const Program program = ReadProgram(bytes.data(), bytes.size());
  const auto driver =
      NewPynq(std::make_unique<FakeRegisters>(places.memory.devices + "/udmabuf0", program.header, true),
              OpenContiguous(places.memory, true), ReadDesign(places.design), 1);
  std::vector<std::unique_ptr<Loaded>> all;
  try {
    while (true) all.push_back(driver->Load(program));
  } catch (const Refusal& refusal) {
    std::printf("%zu\n%s\n", all.size(), refusal.what());
  }
  all[all.size() / 2].reset();
  all.push_back(driver->Load(program));
  for (int i = 0; i < 1000; ++i) {
    all.pop_back();
    all.push_back(driver->Load(program));
  }
  std::printf("again\n");
  return 0;
}

// Programs from the standard input, each after its length; what becomes of each.
int Answer() {
  const auto driver = NewSimulation();
  uint32_t size = 0;
  while (std::fread(&size, sizeof size, 1, stdin) == 1) {
    std::vector<uint8_t> bytes(size);
    if (size != 0 && std::fread(bytes.data(), 1, size, stdin) != size) return 1;
    try {
      const auto loaded = driver->Load(ReadProgram(bytes.data(), bytes.size()));
      loaded->Run();
      loaded->Run();
      std::printf("ran\n");
    } catch (const Refusal& refusal) {
      std::printf("%s: %s\n", refusal.rule.c_str(), refusal.what());
    }
  }
  return 0;
}

// Programs from the standard input, each after the address of its memory and its length. Of each: 1, and its memory
// as it is before a run; or 0, and why it is refused. Run it is as well, unless that takes long.
int Place() {
  uint32_t head[2];
  while (std::fread(head, sizeof head, 1, stdin) == 1) {
    std::vector<uint8_t> bytes(head[1]), answer;
    if (head[1] != 0 && std::fread(bytes.data(), 1, head[1], stdin) != head[1]) return 1;
    uint32_t said[2] = {0, 0};
    try {
      const Program program = ReadProgram(bytes.data(), bytes.size());
      const ProgramHeader& header = program.header;
      std::vector<uint8_t> memory(header.memory_bytes, 0xA5);
      PlaceProgram(program, head[0], memory.data());
      answer = memory;
      said[0] = 1;
      try {
        const Arena arena{memory.data(), header.memory_bytes, head[0]};
        const Limits limits{kLimits.hazard, kLimits.queue, kLimits.tokens, 1u << 14};
        Machine(header.config)
            .Run(memory.data() + header.instructions_at, header.instructions, arena, header.model, limits, {});
      } catch (const Refusal&) {  // of the run: no matter here
      }
    } catch (const Refusal& refusal) {
      const std::string text = refusal.rule + ": " + refusal.what();
      answer.assign(text.begin(), text.end());
    }
    said[1] = static_cast<uint32_t>(answer.size());
    std::fwrite(said, sizeof said, 1, stdout);
    std::fwrite(answer.data(), 1, answer.size(), stdout);
    std::fflush(stdout);
  }
  return 0;
}

int Main(int count, char** words) {
  const std::string verb = words[1];
  if (verb == "run" && count == 7) return OnFake(words + 2, true);
  if (verb == "hang" && count == 7) return OnFake(words + 2, false);
  if (verb == "clock" && count == 7) return Clock(words + 2);
  if (verb == "exhaust") return Exhaust(words + 2);
  if (verb == "answer") return Answer();
  if (verb == "place") return Place();
  if (verb == "problem") return std::puts(PynqProblem(Places(words[2])).c_str()) < 0;
  if (verb == "registers") {
    const auto registers = MapRegisters(words[2] + std::string("/mem"), 0x43C00000, 0x4000);
    registers->Take(1);
    registers->Write(0x43C02018, 0x12345678);
    std::printf("%x\n", registers->Read(0x43C03010));
    registers->Release();
  }
  return 0;
}

}  // namespace
}  // namespace edge::vta

int main(int count, char** words) {
  try {
    return edge::vta::Main(count, words);
  } catch (const edge::vta::Refusal& refusal) {
    std::printf("%s: %s\n", refusal.rule.c_str(), refusal.what());
    return 3;
  }
}
