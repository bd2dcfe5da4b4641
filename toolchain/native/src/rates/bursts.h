// How fast work is done by threads, each on a CPU of its own.
#pragma once

#include <functional>
#include <vector>

namespace edge::rates {

// Does a little of a thread's work, and returns how much it was.
using Work = std::function<double()>;

struct Rate {
  double best;   // what all threads together do in a second
  double share;  // of the time in which the threads had their CPUs: below 1, something else ran there
};

// In the best of many short slices of `seconds`: another program that takes
// their CPUs for a while, or a clock that rises at the beginning, changes little. `work` is called in each thread, once,
// with the thread's number; what it allocates lies near its CPU. Longer where a thread did not get its CPU in that time;
// throws where that goes on.
Rate BestRate(const std::vector<int>& cpus, double seconds, const std::function<Work(int thread)>& work);

}  // namespace edge::rates
