// The packed function edge.vta.run: what networks call with a program.
#pragma once

#include <dlpack/dlpack.h>

#include <memory>
#include <string>

namespace edge::vta {

// Hooks of the kind of device (device.h). What programs are loaded from a library's constant is kept with it; null
// where a constant cannot be a program.
std::shared_ptr<void> KeepProgram(const DLTensor& constant);
// What the cycle model says of the programs that the calling thread has simulated since the last call, as JSON.
std::string TakeModelled();
// Gives a session's client edge.vta.measure.
void OfferMeasure();

// The driver that the calling thread's programs are run by. Fails where the accelerator is meant and there is none.
std::string DriverName();

}  // namespace edge::vta
