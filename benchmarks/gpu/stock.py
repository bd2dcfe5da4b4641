"""TVM's own OpenCL code (DLight's schedules): what is there without ours."""

from __future__ import annotations

import tvm

HOST = {"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": "x86-64-v3"}
# Mali's limits, which other devices keep to as well.
TARGET = tvm.target.Target(
    {
        "kind": "opencl",
        "device": "mali",
        "max_threads_per_block": 256,
        "max_num_threads": 256,
        "max_shared_memory_per_block": 32768,
        "thread_warp_size": 1,
    },
    host=HOST,
)
