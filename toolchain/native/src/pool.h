// The threads that compute networks' parallel loops.
#pragma once

namespace edge {

// Longer than what lies between two loops of a network, on slow cores too.
constexpr int kSpinUs = 50;
constexpr int kMostSpinUs = 1000000;

// How many threads compute (the caller of a network is one of them), and for how many
// microseconds one without work stays awake before it sleeps. Holds from the next loop on.
void ConfigurePool(int threads, int spin_us);
int PoolThreads();
int PoolSpinUs();

}  // namespace edge
