// What generated code calls for a parallel loop, in the place of TVM's own pool, which gives each
// thread one equal part (docs/decisions/0018).
#include "pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/c_backend_api.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace edge {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr size_t kCacheLine = 64;
// A loop's rounds are dealt out in pieces of equally many. More pieces end closer together, fewer
// keep more in cache from one round to the next; docs/decisions/0018 says how 8 was found.
constexpr int kPiecesPerThread = 8;
// Between two looks at the clock.
constexpr int kPauses = 16;

// Whether this thread is computing a loop that has the pool.
thread_local bool computing = false;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

// Rung by one thread, heard by others, who doze for a while before they sleep.
class Bell {
 public:
  uint32_t Rung() const { return rung_.load(); }

  void Ring() {
    rung_.fetch_add(1);
    if (sleepers_.load() != 0) syscall(SYS_futex, &rung_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr);
  }

  // Returns once it has rung more often than `heard`.
  void Wait(uint32_t heard, microseconds spin) {
    if (spin.count() != 0) {
      const auto deadline = steady_clock::now() + spin;
      do {
        for (int i = 0; i < kPauses; ++i) {
          if (Rung() != heard) return;
          Pause();
        }
      } while (steady_clock::now() < deadline);
    }
    // Either the ringer sees this sleeper, or the kernel sees that it has rung.
    sleepers_.fetch_add(1);
    while (Rung() == heard) syscall(SYS_futex, &rung_, FUTEX_WAIT_PRIVATE, heard, nullptr);
    sleepers_.fetch_sub(1);
  }

 private:
  std::atomic<uint32_t> rung_{0};
  std::atomic<int> sleepers_{0};
};

int Serially(FTVMParallelLambda body, void* closure, int pieces) {
  TVMParallelGroupEnv env{nullptr, pieces};
  for (int piece = 0; piece < pieces; ++piece) {
    if (const int code = body(piece, &env, closure)) return code;
  }
  return 0;
}

class Pool {
 public:
  Pool(int threads, microseconds spin) : spin_(spin), shares_(threads) {
    // What is sent to the process is for the program's own threads; what a piece does wrong is not.
    sigset_t held, before;
    sigfillset(&held);
    for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&held, fault);
    pthread_sigmask(SIG_SETMASK, &held, &before);
    try {
      for (int self = 1; self < threads; ++self) threads_.emplace_back([this, self] { Serve(self); });
    } catch (const std::system_error&) {
      // The system allows no more threads: those that there are take the others' shares.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Pool() {
    stop_ = true;
    start_.Ring();
    for (std::thread& thread : threads_) thread.join();
  }

  int Run(FTVMParallelLambda body, void* closure, int pieces) {
    body_ = body;
    closure_ = closure;
    env_ = {nullptr, pieces};
    failed_.store(false, std::memory_order_relaxed);
    pending_.store(pieces, std::memory_order_relaxed);
    for (size_t i = 0; i < shares_.size(); ++i) {
      shares_[i].left.store(End(i) - End(i - 1), std::memory_order_release);
    }
    start_.Ring();
    Work(0);
    // Only for those who have a piece: who comes late finds none left.
    for (uint32_t heard; heard = finished_.Rung(), pending_.load(std::memory_order_acquire) != 0;) {
      finished_.Wait(heard, spin_);
    }
    if (!failed_.load(std::memory_order_relaxed)) return 0;
    tvm::ffi::details::SetSafeCallRaised(*error_);
    error_.reset();
    return -1;
  }

 private:
  // Each thread begins with the same part of every loop: its data are in that core's cache. Who is
  // through with its own takes from the others'.
  struct alignas(kCacheLine) Share {
    std::atomic<int> left{0};
  };

  void Serve(int self) {
    computing = true;
    while (true) {
      const uint32_t heard = start_.Rung();
      Work(self);
      if (stop_) return;
      start_.Wait(heard, spin_);
    }
  }

  // The piece after the last one of a thread's share.
  int End(size_t self) const {
    return static_cast<int>(int64_t{env_.num_task} * static_cast<int64_t>(self + 1) /
                            static_cast<int64_t>(shares_.size()));
  }

  // A piece that was taken keeps its loop from ending: what the loop is may be read afterwards.
  static bool Take(std::atomic<int>* left, int* before) {
    *before = left->load(std::memory_order_relaxed);
    while (*before > 0) {
      if (left->compare_exchange_weak(*before, *before - 1, std::memory_order_acquire,
                                      std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void Work(size_t self) {
    int done = 0;
    for (size_t i = 0; i < shares_.size(); ++i) {
      const size_t whose = (self + i) % shares_.size();
      for (int left; Take(&shares_[whose].left, &left); ++done) Compute(End(whose) - left);
    }
    if (done != 0 && pending_.fetch_sub(done, std::memory_order_acq_rel) == done && self != 0) {
      finished_.Ring();
    }
  }

  // After a failure the other pieces are passed over; the first error is kept.
  void Compute(int piece) {
    if (failed_.load(std::memory_order_relaxed) || body_(piece, &env_, closure_) == 0) return;
    tvm::ffi::Error error = tvm::ffi::details::MoveFromSafeCallRaised();
    if (!failed_.exchange(true)) error_ = std::move(error);
  }

  const microseconds spin_;
  std::vector<Share> shares_;
  Bell start_, finished_;
  std::atomic<bool> stop_{false};
  // The loop that is running; written by its caller, while no piece is left.
  FTVMParallelLambda body_ = nullptr;
  void* closure_ = nullptr;
  TVMParallelGroupEnv env_{};
  std::atomic<int> pending_{0};
  std::atomic<bool> failed_{false};
  std::optional<tvm::ffi::Error> error_;
  std::vector<std::thread> threads_;
};

// The one pool of this process. Its threads start with the first loop, and end with the process:
// while it exits, another of its threads may be in a loop.
struct Owner {
  int Run(FTVMParallelLambda body, void* closure, int pieces) {
    if (threads == 1 || pieces == 1) return Serially(body, closure, std::max(pieces, 1));
    if (pool == nullptr) pool = std::make_unique<Pool>(threads, spin);
    return pool->Run(body, closure, pieces > 0 ? pieces : threads * kPiecesPerThread);
  }

  explicit Owner(int count = 1, microseconds awake = microseconds(0)) : threads(count), spin(awake) {}

  int threads;
  microseconds spin;
  std::mutex busy;  // held while a loop runs
  std::unique_ptr<Pool> pool;
};
Owner* owner = new Owner;

// A forked child has none of the threads, and perhaps the lock of one of them: it begins anew.
void Forked() { owner = new Owner(owner->threads, owner->spin); }
[[maybe_unused]] const int watching = pthread_atfork(nullptr, nullptr, Forked);

int Launch(FTVMParallelLambda body, void* closure, int pieces) {
  // A loop inside a loop, or one of another thread's network meanwhile: the cores are taken.
  if (computing || !owner->busy.try_lock()) return Serially(body, closure, std::max(pieces, 1));
  const std::lock_guard<std::mutex> hold(owner->busy, std::adopt_lock);
  computing = true;
  const int code = owner->Run(body, closure, pieces);
  computing = false;
  return code;
}

}  // namespace

void ConfigurePool(int threads, int spin_us) {
  const std::lock_guard<std::mutex> hold(owner->busy);
  // The next ones start on the CPUs of now.
  owner->pool.reset();
  owner->threads = threads;
  owner->spin = microseconds(spin_us);
}

int PoolThreads() {
  const std::lock_guard<std::mutex> hold(owner->busy);
  return owner->threads;
}

int PoolSpinUs() {
  const std::lock_guard<std::mutex> hold(owner->busy);
  return static_cast<int>(owner->spin.count());
}

}  // namespace edge

extern "C" {

int TVMBackendParallelLaunch(FTVMParallelLambda body, void* closure, int pieces) {
  return edge::Launch(body, closure, pieces);
}

// Never called by code that the toolchain generates. Pieces need not run at the same time, and the
// caller looks at no result: going on would compute wrong numbers.
int TVMBackendParallelBarrier(int, TVMParallelGroupEnv*) {
  std::fputs("edge-rt: parallel loops with barriers are not supported\n", stderr);
  std::abort();
}

}
