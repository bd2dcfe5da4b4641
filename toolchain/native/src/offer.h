// What a kind of device gives the client of an RPC session besides TVM's functions (DeviceKind::offer).
#pragma once

#include <tvm/ffi/function.h>

#include <memory>
#include <string>

#include "lock.h"

namespace edge {

// Registers a function of this session under a name that begins with "edge.KIND.". An edge::Failure that it throws
// reaches the client as TVM's error.
void OfferFunction(const char* name, void (*body)(tvm::ffi::PackedArgs arguments, tvm::ffi::Any* result));

// Returns the path of a file that the client has sent. Throws for a name that leads out of the session's folder.
std::string SessionFile(const std::string& name);

// Waits for the board's measurement lock, as long as the session may; throws EDGE_BUSY with the holder.
std::unique_ptr<MeasureLock> LockForSession();

}  // namespace edge
