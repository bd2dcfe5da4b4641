#include "rates/bursts.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <system_error>
#include <thread>

#include "edge_rt.h"
#include "failure.h"

namespace edge::rates {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than the pieces of work, shorter than the scheduler's turn of another program (3 ms and more).
constexpr double kSlice = 2e-3;
constexpr int kAttempts = 6;
constexpr double kWarm = 0.1;  // share of the time in which nothing counts: clocks rise, caches fill

struct Slice {
  double work = 0, begin = 0, end = 0;  // seconds since the start
};

double Since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void Bind(int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  sched_setaffinity(0, sizeof mask, &mask);  // where it is refused, the system places the thread
}

using Slices = std::vector<Slice>;

// Each piece of work counts for the slice in which it began, with the time that it took.
Slices Count(const Work& work, Clock::time_point start, double seconds, int slices) {
  Slices counted(slices);
  const double warm = seconds * kWarm, length = (seconds - warm) / slices;
  for (double now = Since(start); now < seconds;) {
    const double begin = now, did = work();
    now = Since(start);
    if (begin < warm) continue;
    Slice& slice = counted[std::min(slices - 1, static_cast<int>((begin - warm) / length))];
    if (slice.work == 0) slice.begin = begin;
    slice.work += did;
    slice.end = now;
  }
  return counted;
}

// All slices as one: on a slow machine a piece of work may be longer than a slice.
Slice Whole(const Slices& slices) {
  Slice whole;
  for (const Slice& each : slices) {
    if (each.work == 0) continue;
    if (whole.work == 0) whole.begin = each.begin;
    whole.work += each.work;
    whole.end = each.end;
  }
  return whole;
}

// The sum of all threads' rates in one slice; 0 where a thread did nothing then.
template <typename Choose>
double Together(const std::vector<Slices>& counted, Choose choose) {
  double sum = 0;
  for (const Slices& each : counted) {
    const Slice slice = choose(each);
    if (slice.work == 0 || slice.end <= slice.begin) return 0;
    sum += slice.work / (slice.end - slice.begin);
  }
  return sum;
}

// All threads begin at the same moment and end after so many seconds.
Rate Attempt(const std::vector<int>& cpus, double seconds, const std::function<Work(int thread)>& work) {
  const int slices = std::max(1, static_cast<int>(std::floor(seconds * (1 - kWarm) / kSlice)));
  std::vector<Slices> counted(cpus.size());
  std::vector<double> had(cpus.size());
  std::atomic<size_t> ready{0};
  std::atomic<bool> go{false}, failed{false};
  Clock::time_point start;
  std::vector<std::thread> threads;
  threads.reserve(cpus.size());
  const auto begin_on = [&](size_t i) {
    threads.emplace_back([&, i] {
      Bind(cpus[i]);
      Work mine;
      try {
        mine = work(static_cast<int>(i));
        mine();
      } catch (const std::exception&) {
        failed = true;  // no memory
      }
      ready.fetch_add(1);
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      if (failed) return;
      const double before = CpuSeconds(), begin = Since(start);
      counted[i] = Count(mine, start, seconds, slices);
      had[i] = (CpuSeconds() - before) / std::max(1e-9, Since(start) - begin);
    });
  };
  try {
    for (size_t i = 0; i < cpus.size(); ++i) begin_on(i);
  } catch (const std::system_error&) {
    failed = true;  // no memory for another thread; those that have begun end as if theirs had none
  }
  while (ready.load() != threads.size()) std::this_thread::sleep_for(std::chrono::nanoseconds(100'000));
  start = Clock::now();
  go.store(true, std::memory_order_release);
  for (std::thread& thread : threads) thread.join();
  if (failed) throw Failure(EDGE_FAILED, "probe", "there is no memory to read");
  double best = Together(counted, [](const Slices& each) { return Whole(each); });
  for (int slice = 0; slice < slices; ++slice) {
    best = std::max(best, Together(counted, [&](const Slices& each) { return each[slice]; }));
  }
  return {best, std::accumulate(had.begin(), had.end(), 0.0) / static_cast<double>(had.size())};
}

}  // namespace

Rate BestRate(const std::vector<int>& cpus, double seconds, const std::function<Work(int thread)>& work) {
  Rate rate = Attempt(cpus, seconds, work);
  // On a busy machine a thread may not have had its CPU at all.
  for (int attempt = 0; rate.best == 0 && attempt < kAttempts; ++attempt) rate = Attempt(cpus, seconds *= 2, work);
  if (rate.best == 0) throw Failure(EDGE_FAILED, "probe", "other programs keep the CPUs from being measured");
  return rate;
}

}  // namespace edge::rates
