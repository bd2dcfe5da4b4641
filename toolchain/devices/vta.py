"""The row of VTA: programs that edge-rt feeds to an accelerator in programmable logic, or simulates."""

from __future__ import annotations

from toolchain.devices.kind import DeviceKind

VTA = DeviceKind(
    name="vta",
    named="what runs its programs, pynq (the hardware) or sim",
    needs=frozenset({"config"}),
    simulation="sim",
    peaks={"": 1e13},  # an FPGA's logic has no more
    nodes=("/dev/xlnk", "/dev/uio*"),
)
