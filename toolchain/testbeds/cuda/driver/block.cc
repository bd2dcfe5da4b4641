#include "block.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "async_copies.h"
#include "fiber.h"
#include "global.h"
#include "memory.h"
#include "shared.h"

namespace emulated {
namespace {

constexpr unsigned kWarp = 32, kSlotBytes = 64;

enum class State { kNew, kReady, kAtBarrier, kAtWarp, kEnded };

struct Thread {
  edge::Now now;
  State state = State::kNew;
  Fiber* fiber = nullptr;
  int line = 0;                // of the barrier or warp operation that it waits at
  unsigned mask = 0;           // of the warp operation
  const char* what = nullptr;  // the warp operation's name
  const char* received = nullptr;
  unsigned warp_interval = 0;
  AsyncCopies copies;
};

// What lanes of a warp hand each other.
struct Exchange {
  // A lane reads results of an exchange when its turn comes; the others finish fewer than so many meanwhile.
  static constexpr unsigned kResults = 2 * kWarp;
  alignas(16) char handed[kWarp][kSlotBytes];
  alignas(16) char results[kResults][kWarp][kSlotBytes];
  unsigned next = 0;
};

std::string Place(const char* what, const edge::Triple& at) {
  char text[96];
  std::snprintf(text, sizeof(text), "%s (%u, %u, %u)", what, at.x, at.y, at.z);
  return text;
}

class Runner {
 public:
  static Runner& Get() {
    static auto* runner = new Runner;
    return *runner;
  }

  Outcome Run(const Launch& launch);

  // In a fiber.
  void Main();
  void CheckAccess(const void* at, std::size_t bytes, bool write, bool atomic);
  void Arrive(const void* counter) { block_races_.Arrive(reinterpret_cast<std::uintptr_t>(counter)); }
  void Barrier(int line);
  void WarpBarrier(unsigned mask, int line);
  const char* Gather(unsigned mask, const void* mine, std::size_t bytes, const char* what, int line);
  unsigned Active();
  void CopyAsync(void* to, const void* from, std::size_t bytes, std::size_t zeros);
  void WaitAsync(unsigned left);
  Thread& current() { return *current_; }
  [[noreturn]] void Fail(CUresult result, const std::string& words);
  std::string Name(const Thread& thread) { return Place("thread", thread.now.thread); }

 private:
  bool RunBlock(const edge::Triple& at);
  void Start(Thread& thread);
  void Resume(Thread& thread);
  bool Release();
  Thread* NextNew();
  void Suspend(State state);
  unsigned NumberOf(const Thread& thread) { return static_cast<unsigned>(&thread - threads_.data()); }
  std::size_t Offset(std::uintptr_t at, std::size_t bytes);

  const Launch* launch_ = nullptr;
  std::vector<void*> arguments_;
  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::vector<char> dynamic_;
  char* dynamic_at_ = nullptr;
  RaceDetector races_;
  BlockRaceDetector block_races_;
  Thread* current_ = nullptr;
  bool backwards_ = false;  // the order of threads, and that of blocks, alternates: code that needs one fails
  unsigned next_new_ = 0;
  Outcome outcome_;
};

void FiberMain() { Runner::Get().Main(); }

Outcome Runner::Run(const Launch& launch) {
  launch_ = &launch;
  outcome_ = {};
  arguments_.clear();
  for (const auto& argument : launch.arguments) arguments_.push_back(const_cast<char*>(argument.data()));
  constexpr std::size_t kAlign = 1024;
  dynamic_.assign(launch.dynamic_shared + kAlign, 0);
  const auto begin = reinterpret_cast<std::uintptr_t>(dynamic_.data());
  dynamic_at_ = reinterpret_cast<char*>((begin + kAlign - 1) / kAlign * kAlign);
  const edge::Triple& grid = launch.grid;
  const std::size_t blocks = std::size_t{grid.x} * grid.y * grid.z;
  memory::Access access;
  const bool backwards = backwards_ = !backwards_;
  block_races_.Begin();
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t at = backwards ? blocks - 1 - i : i;
    block_races_.BeginBlock(static_cast<unsigned>(at));
    const auto x = static_cast<unsigned>(at % grid.x), y = static_cast<unsigned>(at / grid.x % grid.y);
    if (!RunBlock({x, y, static_cast<unsigned>(at / grid.x / grid.y)})) break;
  }
  launch_ = nullptr;
  return std::move(outcome_);
}

bool Runner::RunBlock(const edge::Triple& at) {
  const edge::Triple& size = launch_->block;
  const unsigned count = size.x * size.y * size.z;
  const auto shared = static_cast<std::size_t>(launch_->kernel->shared_end - launch_->kernel->shared);
  std::memset(launch_->kernel->shared, 0xFF, shared);  // NaN: shared memory begins with anything
  std::memset(dynamic_at_, 0xFF, launch_->dynamic_shared);
  races_.Begin((shared + 15) / 16 * 16 + launch_->dynamic_shared);
  threads_.resize(count);
  while (exchanges_.size() * kWarp < count) exchanges_.push_back(std::make_unique<Exchange>());
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    thread.now = {{i % size.x, i / size.x % size.y, i / size.x / size.y}, at, size, launch_->grid, nullptr, 0, dynamic_at_};
    thread.state = State::kNew;
    thread.fiber = nullptr;
    thread.warp_interval = 0;
    thread.copies.Clear();
  }
  next_new_ = 0;
  do {
    for (bool ran = true; ran && outcome_.result == CUDA_SUCCESS;) {
      ran = false;
      backwards_ = !backwards_;
      for (unsigned i = 0; i < count && outcome_.result == CUDA_SUCCESS; ++i) {
        Thread& thread = threads_[backwards_ ? count - 1 - i : i];
        if (thread.state != State::kNew && thread.state != State::kReady) continue;
        ran = true;
        Resume(thread);
      }
    }
  } while (outcome_.result == CUDA_SUCCESS && Release());
  if (outcome_.result == CUDA_SUCCESS) return true;
  idle_.clear();
  for (auto& fiber : fibers_) {  // threads that wait are forgotten
    fiber->Reset();
    idle_.push_back(fiber.get());
  }
  return false;
}

// Begins or continues a thread until it waits, or until it and others that were new have ended.
void Runner::Resume(Thread& thread) {
  if (thread.state == State::kNew) Start(thread);
  current_ = &thread;
  *launch_->unit->now = &thread.now;
  thread.state = State::kReady;
  thread.fiber->Resume();
  // The fiber may have gone on to other threads: `current_` is the one that waits in it, if any does.
}

void Runner::Start(Thread& thread) {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>(FiberMain));
    idle_.push_back(fibers_.back().get());
  }
  thread.fiber = idle_.back();
  idle_.pop_back();
}

void Runner::Main() {
  for (;;) {
    Thread* thread = current_;
    Fiber* fiber = thread->fiber;
    thread->now.stack = fiber->stack();
    thread->now.stack_bytes = Fiber::StackBytes();
    launch_->kernel->enter(arguments_.data());
    thread->state = State::kEnded;
    thread->fiber = nullptr;
    if (Thread* next = NextNew()) {  // in the same fiber: no switch, where no thread waits
      next->state = State::kReady;
      next->fiber = fiber;
      current_ = next;
      *launch_->unit->now = &next->now;
      continue;
    }
    idle_.push_back(fiber);
    fiber->Suspend();
  }
}

// The next thread in this turn's order that has not begun.
Thread* Runner::NextNew() {
  const auto count = static_cast<unsigned>(threads_.size());
  while (next_new_ < count) {
    Thread& thread = threads_[backwards_ ? count - 1 - next_new_ : next_new_];
    if (thread.state == State::kNew) return &thread;
    ++next_new_;
  }
  return nullptr;
}

void Runner::Suspend(State state) {
  Thread& thread = *current_;
  thread.state = state;
  thread.fiber->Suspend();
}

// No thread can go on. Opens the barrier that all wait at; false if all have ended, or if they never will.
bool Runner::Release() {
  const Thread *ended = nullptr, *waits = nullptr, *other = nullptr, *warp = nullptr;
  for (Thread& thread : threads_) {
    if (thread.state == State::kEnded) ended = &thread;
    if (thread.state == State::kAtWarp) warp = &thread;
    if (thread.state == State::kAtBarrier) {
      if (waits != nullptr && waits->line != thread.line) other = &thread;
      if (waits == nullptr) waits = &thread;
    }
  }
  auto line = [](const Thread& thread) { return "line " + std::to_string(thread.line); };
  std::string words;
  if (warp != nullptr) {
    words = Name(*warp) + " waits at " + warp->what + " of " + line(*warp) +
            ", which lanes of its mask never reach";
  } else if (waits != nullptr && ended != nullptr) {
    words = Name(*waits) + " waits at the barrier of " + line(*waits) + ", but " + Name(*ended) +
            " has ended without it";
  } else if (other != nullptr) {
    words = Name(*waits) + " waits at the barrier of " + line(*waits) + ", but " + Name(*other) + " at that of " +
            line(*other);
  }
  if (!words.empty()) {
    const edge::Triple& at = threads_[0].now.block;
    outcome_ = {CUDA_ERROR_LAUNCH_FAILED, Place("block", at) + ": " + words};
    return false;
  }
  if (waits == nullptr) return false;
  races_.Barrier();
  for (Thread& thread : threads_) thread.state = State::kReady;
  return true;
}

void Runner::Fail(CUresult result, const std::string& words) {
  outcome_ = {result, Place("block", current_->now.block) + ", " + Name(*current_) + ": " + words};
  Fiber* fiber = current_->fiber;
  for (;;) fiber->Suspend();
}

// Returns where in shared memory an access lies; the largest number if it lies elsewhere.
std::size_t Runner::Offset(std::uintptr_t at, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(launch_->kernel->shared);
  const auto end = reinterpret_cast<std::uintptr_t>(launch_->kernel->shared_end);
  if (at >= begin && at < end && end - at >= bytes) return at - begin;
  const auto dynamic = reinterpret_cast<std::uintptr_t>(dynamic_at_);
  if (at >= dynamic && at - dynamic < launch_->dynamic_shared && launch_->dynamic_shared - (at - dynamic) >= bytes) {
    return (end - begin + 15) / 16 * 16 + (at - dynamic);
  }
  return SIZE_MAX;
}

void Runner::CheckAccess(const void* pointer, std::size_t bytes, bool write, bool atomic) {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const std::size_t offset = Offset(at, bytes);
  if (offset != SIZE_MAX) {
    const auto race = races_.Note(offset, bytes, NumberOf(*current_), current_->warp_interval, write, atomic);
    if (!race) return;
    const std::string other =
        race->other < threads_.size() ? Name(threads_[race->other]) : "threads of several warps";
    Fail(CUDA_ERROR_LAUNCH_FAILED,
         std::string("a race: it ") + (write ? "writes" : "reads") + " byte " + std::to_string(offset) +
             " of shared memory, which " + other + (race->other_wrote ? " wrote" : " read") +
             ", and no barrier lies between");
  }
  if (memory::Contains(at, bytes, launch_->owner)) {
    if (atomic) return Arrive(pointer);
    const auto other = block_races_.Note(at, bytes, write);
    if (!other) return;
    const edge::Triple& grid = launch_->grid;
    Fail(CUDA_ERROR_LAUNCH_FAILED,
         std::string("a race: it ") + (write ? "writes" : "reads") + " device memory that " +
             Place("block", {*other % grid.x, *other / grid.x % grid.y, *other / grid.x / grid.y}) +
             " wrote in this launch, and no counter says that it had");
  }
  const auto stack = reinterpret_cast<std::uintptr_t>(current_->now.stack);
  if (at >= stack && at - stack < current_->now.stack_bytes) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(launch_->unit->begin);
  if (!write && at >= begin && at - begin < launch_->constants) return;
  char text[160];
  std::snprintf(text, sizeof(text), "it %s %zu bytes at 0x%llx, which lie %s", write ? "writes" : "reads", bytes,
                static_cast<unsigned long long>(at),
                memory::InArena(at) ? "in no allocation of device memory" : "in no memory of a kernel");
  Fail(CUDA_ERROR_ILLEGAL_ADDRESS, text);
}

void Runner::Barrier(int line) {
  current_->line = line;
  Suspend(State::kAtBarrier);
}

const char* Runner::Gather(unsigned mask, const void* mine, std::size_t bytes, const char* what, int line) {
  Thread& thread = *current_;
  const unsigned number = NumberOf(thread), first = number / kWarp * kWarp, lane = number - first;
  const unsigned lanes = std::min(kWarp, static_cast<unsigned>(threads_.size()) - first);
  mask &= lanes == kWarp ? ~0u : (1u << lanes) - 1;  // lanes that the block does not have take no part
  if (!(mask >> lane & 1)) Fail(CUDA_ERROR_LAUNCH_FAILED, std::string("its lane is not in the mask of ") + what);
  Exchange& exchange = *exchanges_[first / kWarp];
  std::memcpy(exchange.handed[lane], mine, bytes);
  thread.what = what;
  thread.mask = mask;
  thread.line = line;
  thread.state = State::kAtWarp;
  for (unsigned i = 0; i < lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    const Thread& other = threads_[first + i];
    if (other.state != State::kAtWarp || other.mask != mask || std::strcmp(other.what, what) != 0) {
      thread.fiber->Suspend();
      return thread.received;
    }
  }
  auto& results = exchange.results[exchange.next++ % Exchange::kResults];
  for (unsigned i = 0; i < lanes; ++i) {
    if (!(mask >> i & 1)) continue;
    Thread& other = threads_[first + i];
    std::memcpy(results[i], exchange.handed[i], bytes);
    other.received = results[0];
    other.state = State::kReady;
  }
  return thread.received;
}

void Runner::WarpBarrier(unsigned mask, int line) {
  Gather(mask, nullptr, 0, "__syncwarp", line);
  ++current_->warp_interval;
}

unsigned Runner::Active() {
  const unsigned first = NumberOf(*current_) / kWarp * kWarp;
  unsigned mask = 0;
  for (unsigned i = 0; i < kWarp && first + i < threads_.size(); ++i) {
    if (threads_[first + i].state != State::kEnded) mask |= 1u << i;
  }
  return mask;
}

void Runner::CopyAsync(void* to, const void* from, std::size_t bytes, std::size_t zeros) {
  const std::size_t all = bytes + zeros;
  if (all != 4 && all != 8 && all != 16) Fail(CUDA_ERROR_ILLEGAL_INSTRUCTION, "cp.async copies 4, 8 or 16 bytes");
  const auto target = reinterpret_cast<std::uintptr_t>(to), source = reinterpret_cast<std::uintptr_t>(from);
  if (target % all != 0 || source % all != 0) {
    Fail(CUDA_ERROR_MISALIGNED_ADDRESS, "cp.async of " + std::to_string(all) + " bytes needs addresses aligned to them");
  }
  if (Offset(target, all) == SIZE_MAX) Fail(CUDA_ERROR_ILLEGAL_ADDRESS, "cp.async writes outside of shared memory");
  CheckAccess(to, all, true, false);
  if (bytes != 0) CheckAccess(from, bytes, false, false);
  std::memset(to, 0xFF, all);  // NaN until the copy was waited for
  current_->copies.Add({static_cast<char*>(to), static_cast<const char*>(from), bytes, zeros});
}

void Runner::WaitAsync(unsigned left) {
  for (const AsyncCopy& copy : current_->copies.Take(left)) {
    CheckAccess(copy.to, copy.bytes + copy.zeros, true, false);
    std::memcpy(copy.to, copy.from, copy.bytes);
    std::memset(copy.to + copy.bytes, 0, copy.zeros);
  }
}

}  // namespace

Outcome Run(const Launch& launch) { return Runner::Get().Run(launch); }

const edge::Services& KernelServices() {
  static const edge::Services services = {
      [](const void* at, std::size_t bytes, bool write, bool atomic) {
        Runner::Get().CheckAccess(at, bytes, write, atomic);
      },
      [](int line) { Runner::Get().Barrier(line); },
      [](unsigned mask, int line) { Runner::Get().WarpBarrier(mask, line); },
      [](unsigned mask, const void* mine, std::size_t bytes, const char* what, int line) {
        return Runner::Get().Gather(mask, mine, bytes, what, line);
      },
      [] { return Runner::Get().Active(); },
      [](void* to, const void* from, std::size_t bytes, std::size_t zeros) {
        Runner::Get().CopyAsync(to, from, bytes, zeros);
      },
      [] { Runner::Get().current().copies.Commit(); },
      [](unsigned left) { Runner::Get().WaitAsync(left); },
      [](const void* counter) { Runner::Get().Arrive(counter); },
      [](int code, const char* words) { Runner::Get().Fail(static_cast<CUresult>(code), words); },
  };
  return services;
}

}  // namespace emulated
