// A call of the driver: its lock, its line in the log, the fault that is injected into it.
//
// EDGE_CUDA_LOG    a file; each call appends a line of JSON
// EDGE_CUDA_FAULT  NAME:RESULT[:N],…   the Nth call of NAME (without N: each) returns this number;
//                  NAME:hang[:N]       it never returns
#pragma once
#include <initializer_list>
#include <string>
#include <type_traits>

#include "driver_api.h"

namespace emulated {

// A field of a call's line.
struct Field {
  Field(const char* name, const char* value);
  Field(const char* name, const std::string& value) : Field(name, value.c_str()) {}
  template <class Number, class = std::enable_if_t<std::is_integral_v<Number> || std::is_enum_v<Number>>>
  Field(const char* name, Number value) : name(name), json(std::to_string(static_cast<long long>(value))) {}
  Field(const char* name, const void* handle) : Field(name, reinterpret_cast<std::uintptr_t>(handle)) {}

  std::string name, json;
};

enum class Needs {
  kNothing,  // cuDriverGetVersion
  kInit,     // a driver that cuInit has begun
  kContext,  // a context that is current in this thread, and has not failed
};

class Call {
 public:
  // Waits for the lock, and forever where a fault says so.
  Call(const char* name, Needs needs, std::initializer_list<Field> fields);
  // Writes the line.
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Whether the call ends at once, with `result()`.
  bool refused() const { return result_ != CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  // Ends the call with a result; one that an illegal access or a failed kernel gives stays the context's.
  CUresult End(CUresult result);
  void Tell(const Field& field);

 private:
  std::string line_;
  CUresult result_ = CUDA_SUCCESS;
};

const char* NameOf(CUresult result);

// Writes words of the driver's own into the log, and to stderr.
void Say(const std::string& words);

// Runs a call's body, unless it is refused.
template <class Body>
CUresult Do(const char* name, Needs needs, std::initializer_list<Field> fields, Body body) {
  Call call(name, needs, fields);
  if (call.refused()) return call.End(call.result());
  if constexpr (std::is_invocable_v<Body, Call&>) {
    return call.End(body(call));
  } else {
    return call.End(body());
  }
}

}  // namespace emulated
