"""Its ways of making code: both of this package's, with a machine of its own."""

from __future__ import annotations

from dataclasses import replace

from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import OPENCL, within
from toolchain.backends.table import PACKED_BUILDS, BackendRow, packed_code, scheduled_code
from toolchain.devices.device import Device

OFFERS = (
    BackendRow(("metal",), ("packed",), packed_code, PACKED_BUILDS),
    BackendRow(("metal",), ("NHWC",), scheduled_code, ()),
)


def machine(limits: Device, dtype: str) -> Machine:
    del dtype
    return within(replace(OPENCL, isa="metal", widths=(2, 4)), limits)
