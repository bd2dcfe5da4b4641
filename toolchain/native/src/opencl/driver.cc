#include "opencl/driver.h"

#include <dlfcn.h>

#include <cstring>
#include <utility>

namespace edge::opencl {
namespace {

constexpr std::pair<cl_int, const char*> kErrors[] = {
    {-1, "CL_DEVICE_NOT_FOUND"},
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-7, "CL_PROFILING_INFO_NOT_AVAILABLE"},
    {-8, "CL_MEM_COPY_OVERLAP"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-12, "CL_MAP_FAILURE"},
    {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
    {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {-15, "CL_COMPILE_PROGRAM_FAILURE"},
    {-16, "CL_LINKER_NOT_AVAILABLE"},
    {-17, "CL_LINK_PROGRAM_FAILURE"},
    {-30, "CL_INVALID_VALUE"},
    {-31, "CL_INVALID_DEVICE_TYPE"},
    {-32, "CL_INVALID_PLATFORM"},
    {-33, "CL_INVALID_DEVICE"},
    {-34, "CL_INVALID_CONTEXT"},
    {-35, "CL_INVALID_QUEUE_PROPERTIES"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-37, "CL_INVALID_HOST_PTR"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-42, "CL_INVALID_BINARY"},
    {-43, "CL_INVALID_BUILD_OPTIONS"},
    {-44, "CL_INVALID_PROGRAM"},
    {-45, "CL_INVALID_PROGRAM_EXECUTABLE"},
    {-46, "CL_INVALID_KERNEL_NAME"},
    {-47, "CL_INVALID_KERNEL_DEFINITION"},
    {-48, "CL_INVALID_KERNEL"},
    {-49, "CL_INVALID_ARG_INDEX"},
    {-50, "CL_INVALID_ARG_VALUE"},
    {-51, "CL_INVALID_ARG_SIZE"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {-53, "CL_INVALID_WORK_DIMENSION"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"},
    {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-56, "CL_INVALID_GLOBAL_OFFSET"},
    {-57, "CL_INVALID_EVENT_WAIT_LIST"},
    {-58, "CL_INVALID_EVENT"},
    {-59, "CL_INVALID_OPERATION"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
    {-64, "CL_INVALID_PROPERTY"},
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
};

}  // namespace

std::optional<Driver> OpenDriver(const char* file, std::string* problem) {
  // Its symbols stay its own: it may bring libraries that others have too (PoCL: LLVM).
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* words = dlerror();
    // Where the file exists, why it can't be used says more than that it can't.
    const bool absent = words == nullptr || std::strstr(words, "No such file") != nullptr;
    *problem = std::string(file) + (absent ? " is not here" : std::string(": ") + words);
    return std::nullopt;
  }
  Driver driver;
  driver.file = file;
  const char* missing = nullptr;
#define EDGE_CL_FIND(result, name, arguments)                                    \
  driver.name = reinterpret_cast<result(*) arguments>(dlsym(library, #name));     \
  if (driver.name == nullptr) missing = #name;
  EDGE_CL_FUNCTIONS(EDGE_CL_FIND)
#undef EDGE_CL_FIND
  if (missing != nullptr) {
    *problem = std::string(file) + " has no " + missing;
    return std::nullopt;
  }
  return driver;
}

std::string ErrorName(cl_int code) {
  for (const auto& [number, name] : kErrors) {
    if (number == code) return std::string(name) + " (" + std::to_string(code) + ")";
  }
  return "the unknown code " + std::to_string(code);
}

}  // namespace edge::opencl
