"""The row of the toy: what the toolchain knows of it before anything heavy is imported."""

from __future__ import annotations

from toolchain.devices.kind import DeviceKind

TOY = DeviceKind(
    name="toy",
    own={"most_rows": "rows of a tile, at most"},
    peaks={"": 1e12},
    code={"backends": "edge_toy.backend:OFFERS"},
)
