// How the driver calls a kernel: by an array of pointers to its arguments.
#pragma once

namespace edge {

template <size_t... Places>
struct Numbers {};
template <size_t Count, size_t... Places>
struct UpTo : UpTo<Count - 1, Count - 1, Places...> {};
template <size_t... Places>
struct UpTo<0, Places...> {
  using Type = Numbers<Places...>;
};

template <auto kKernel>
struct Entry;
template <class... Types, void (*kKernel)(Types...)>
struct Entry<kKernel> {
  template <size_t... Places>
  __attribute__((no_sanitize("all"))) static void Call(void* const* arguments, Numbers<Places...>) {
    kKernel(*static_cast<Types*>(arguments[Places])...);
  }
  __attribute__((no_sanitize("all"))) static void Enter(void* const* arguments) {
    Call(arguments, typename UpTo<sizeof...(Types)>::Type());
  }
  static constexpr unsigned kCount = sizeof...(Types);
  static constexpr unsigned kBytes[kCount + 1] = {sizeof(Types)..., 0};
};

}  // namespace edge

// At the end of a unit, in this order: EDGE_KERNEL_SHARED for each kernel, then EDGE_UNIT around EDGE_KERNELs.
#define EDGE_KERNEL_SHARED(name)                                                                   \
  extern "C" __attribute__((weak, visibility("hidden"))) char __start_edge_shared_##name[];        \
  extern "C" __attribute__((weak, visibility("hidden"))) char __stop_edge_shared_##name[];
#define EDGE_KERNEL(name, most_threads)                                                            \
  {#name,       &edge::Entry<&name>::Enter, edge::Entry<&name>::kCount, edge::Entry<&name>::kBytes, \
   __start_edge_shared_##name, __stop_edge_shared_##name, most_threads},
#define EDGE_UNIT(...)                                                                             \
  extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];                      \
  static const edge::Kernel edge_kernels[] = {__VA_ARGS__};                                        \
  extern "C" __attribute__((visibility("default"))) const edge::Unit edge_emulated_unit = {        \
      edge::kKernelAbi, sizeof(edge_kernels) / sizeof(edge::Kernel), edge_kernels,                 \
      &edge::services,  &edge::now, __ehdr_start};
