#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// void EmulatedSwitch(void** from, void* to): keeps what the ABI says a function keeps, and continues at `to`.
// ucontext's swapcontext makes a system call each time, for signal masks that are the same here.
extern "C" void EmulatedSwitch(void** from, void* to) asm("EmulatedSwitch");
#if defined(__x86_64__)
asm(R"(
  .text
  .hidden EmulatedSwitch
  .globl EmulatedSwitch
  .type EmulatedSwitch, @function
EmulatedSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size EmulatedSwitch, .-EmulatedSwitch
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .hidden EmulatedSwitch
  .globl EmulatedSwitch
  .type EmulatedSwitch, %function
EmulatedSwitch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size EmulatedSwitch, .-EmulatedSwitch
)");
#else
#error "the emulated CUDA driver switches fibers on x86-64 and aarch64 alone"
#endif

namespace emulated {
namespace {

constexpr std::size_t kPage = 65536;            // the largest page of Linux on either architecture
constexpr std::size_t kStackBytes = 4 * kPage;  // tiles that registers hold on a GPU lie here

}  // namespace

std::size_t Fiber::StackBytes() { return kStackBytes; }

Fiber::Fiber(void (*main)()) : main_(main) {
  void* mapped = mmap(nullptr, kPage + kStackBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED ||
      mprotect(static_cast<char*>(mapped) + kPage, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
    std::perror("emulated CUDA: no memory for the stack of a thread");
    std::abort();
  }
  stack_ = static_cast<char*>(mapped) + kPage;
  Reset();
}

Fiber::~Fiber() { munmap(stack_ - kPage, kPage + kStackBytes); }

void Fiber::Reset() {
  auto** top = reinterpret_cast<void**>(stack_ + kStackBytes);
#if defined(__x86_64__)
  *--top = nullptr;  // as if `main` had been called: 8 bytes below a multiple of 16
  *--top = reinterpret_cast<void*>(main_);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
#else
  top -= 20;
  for (int i = 0; i < 20; ++i) top[i] = nullptr;
  top[11] = reinterpret_cast<void*>(main_);  // x30
#endif
  here_ = top;
}

void Fiber::Resume() { EmulatedSwitch(&outside_, here_); }
void Fiber::Suspend() { EmulatedSwitch(&here_, outside_); }

}  // namespace emulated
