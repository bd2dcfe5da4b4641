// A fiber: a stack of its own, to which a thread switches and from which it switches back.
#pragma once
#include <cstddef>

namespace emulated {

class Fiber {
 public:
  // Maps its stack, with a page below it that cannot be accessed; `main` runs at the first switch, and never returns.
  explicit Fiber(void (*main)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs this fiber until it switches back. Called outside of fibers.
  void Resume();
  // Continues where `Resume` was called. Called in this fiber.
  void Suspend();
  // Begins `main` anew at the next `Resume`: what the stack held is forgotten.
  void Reset();

  char* stack() const { return stack_; }
  static std::size_t StackBytes();

 private:
  void (*main_)();
  char* stack_;
  void* here_;
  void* outside_ = nullptr;
};

}  // namespace emulated
