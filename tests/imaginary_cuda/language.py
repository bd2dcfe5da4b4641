"""What the source of its kernels tells."""

from __future__ import annotations

import re

from toolchain.devices.language import Language

CUDA_CPP = Language(
    array=re.compile(r"(?m)^\s*(?:alignas\(\d+\) )?\b(float|half|int|double)(2|4)?\s+\w+\[(\d+)\];"),
    vector=re.compile(r"\*\((?:float|half|int|uint)(2|4)\*\)"),
    half=re.compile(r"\bhalf\d*\b"),
    barrier="__syncthreads(",
)
