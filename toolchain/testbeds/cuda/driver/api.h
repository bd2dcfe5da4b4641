#pragma once
#include "driver_api.h"

#define EMULATED_API extern "C" __attribute__((visibility("default")))
