// Only in libedge.so: networks' libraries look for the runtime's C functions in the global scope,
// where a library that Python or dlopen opened isn't by itself.
#include <dlfcn.h>

#include "edge_rt.h"

__attribute__((constructor)) static void JoinGlobalScope() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&edge_open), &self) != 0) {
    // Never closed: kernels' threads outlive the last network.
    dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
  }
}
