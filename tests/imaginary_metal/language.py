"""What the source of its kernels tells."""

from __future__ import annotations

import re

from toolchain.devices.kernel import Language

METAL_CPP = Language(
    array=re.compile(r"(?m)^\s*(?:thread )?\b(float|half|int)(2|4)?\s+\w+\[(\d+)\];"),
    vector=re.compile(r"\*\((?:device )?(?:const )?(?:float|half|int|uint)(2|4)\*\)"),
    half=re.compile(r"\bhalf\d*\b"),
    barrier="threadgroup_barrier(",
)
