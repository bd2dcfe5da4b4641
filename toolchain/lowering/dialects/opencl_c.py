"""Corrects OpenCL C where TVM's code generator writes CUDA or C++.

A vector literal is `(float4)(a, b, c, d)` in OpenCL C, and a lane is `v.s2`; TVM's generator for C, which
OpenCL's inherits, writes `float4(a, b, c, d)` and `v[2]` for a shuffle (tvm/src/target/source/codegen_c.cc).
"""

from __future__ import annotations

import re

_LITERAL = re.compile(r"(?<!\w)((?:float|half|int|uint|short|ushort|char|uchar|long|ulong)(?:2|4|8|16))\(")
_LOAD = re.compile(r"\bvload(?:2|4|8|16)\(")
_LANE = re.compile(r"\[(\d+)\]")


def corrected(source: str) -> str:
    """Return a kernel's source as valid OpenCL C."""
    return _lanes(_LITERAL.sub(r"(\1)(", source))


def _lanes(source: str) -> str:
    """Return a source in which lanes of loaded vectors are accessed by name."""
    parts, done = [], 0
    for load in _LOAD.finditer(source):
        end = closed(source, load.end())
        if lane := _LANE.match(source, end):
            parts += [source[done:end], f".s{int(lane[1]):x}"]
            done = lane.end()
    return "".join([*parts, source[done:]])


def closed(source: str, at: int) -> int:
    """Return the index after the closing parenthesis or bracket that matches the one opened before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(source[at], 0)
        at += 1
    return at
