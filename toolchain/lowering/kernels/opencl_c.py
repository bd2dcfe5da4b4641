"""What TVM's code generator for OpenCL C writes as if it were CUDA or C++, in OpenCL's own words.

A vector of several values is `(float4)(a, b, c, d)`, and a lane of one `v.s2`; TVM's generator for C, which
OpenCL's inherits, writes `float4(a, b, c, d)` and `v[2]` for a shuffle (tvm/src/target/source/codegen_c.cc).
"""

from __future__ import annotations

import re

_LITERAL = re.compile(r"(?<!\w)((?:float|half|int|uint|short|ushort|char|uchar|long|ulong)(?:2|4|8|16))\(")
_LOAD = re.compile(r"\bvload(?:2|4|8|16)\(")
_LANE = re.compile(r"\[(\d+)\]")


def corrected(source: str) -> str:
    """Return a kernel's source as OpenCL compilers read it."""
    return _lanes(_LITERAL.sub(r"(\1)(", source))


def _lanes(source: str) -> str:
    """Return a source with lanes of loaded vectors by their names."""
    parts, done = [], 0
    for load in _LOAD.finditer(source):
        end = closed(source, load.end())
        if lane := _LANE.match(source, end):
            parts += [source[done:end], f".s{int(lane[1]):x}"]
            done = lane.end()
    return "".join([*parts, source[done:]])


def closed(source: str, at: int) -> int:
    """Return the place behind what closes the parenthesis or bracket that is open at a place."""
    depth = 1
    while depth:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(source[at], 0)
        at += 1
    return at
