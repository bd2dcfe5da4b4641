"""The row of VTA: edge-rt runs its programs on an accelerator in programmable logic, or simulates it."""

from __future__ import annotations

from toolchain.devices.kind import DeviceKind

VTA = DeviceKind(
    name="vta",
    named="what runs its programs, pynq (the hardware) or sim",
    needs=frozenset({"config"}),
    simulation="sim",
    peaks={"": 1e13},  # no FPGA reaches more
    quantizers=("power-of-two", "global-scale"),  # its ALU shifts
    nodes=("/dev/xlnk", "/dev/uio*"),
)
