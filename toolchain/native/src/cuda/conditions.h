// How a GPU is: its clock, its temperature, who else computes on it.
#pragma once

#include "cuda/devices.h"
#include "device.h"

namespace edge::cuda {

// By NVIDIA's management library, which comes with the driver; on a board whose GPU is part of the chip, by Linux's
// files. What neither says is none.
Conditions ConditionsOf(const CuDevice& device);

}  // namespace edge::cuda
