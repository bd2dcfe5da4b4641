"""The three steps of TVM's article on Mali (16 January 2018), and what was measured there on a Mali-T860 MP4.

A convolution of 256 to 256 channels, 3x3, on 56x56 values; a work item computes 4 columns of 4 channels, and
a work group has 8 items. Written anew from the article's schedules, for its code is not printed there.
"""

from __future__ import annotations

from itertools import product

from toolchain.devices.kernel import Kernel

MEASURED_GFLOPS = {"bind": 0.6588, "unroll": 9.9796, "vectorize": 28.3679}

_TAPS = list(product(range(3), range(3), range(4)))  # row and column of the kernel, column of the tile


def kernel(step: str) -> Kernel:
    """Return the kernel of a step, launched as there."""
    body = {"bind": _bind, "unroll": _unroll, "vectorize": _vectorize}[step]()
    head = (
        f"__kernel void {step}(__global const float* restrict d, __global const float* restrict k, "
        "__global float* restrict y) {\n"
        "  const int co = get_global_id(0), h = get_global_id(1), w = get_global_id(2);\n"
    )
    return Kernel(step, head + body + "}\n", (1, 1, 8), (64, 56, 2))


def _data(row: object, column: object) -> str:
    return f"d[((((h*14+w)*256+ci)*3+{row})*6)+{column}]"


def _weight(row: object, column: object, channel: object) -> str:
    return f"k[(((co*256+ci)*3+{row})*3+{column})*4+{channel}]"


def _output(place: object) -> str:
    return f"y[((co*56+h)*14+w)*16+{place}]"


def _bind() -> str:
    sums = _output("vw*4+vc")
    product_ = f"{_data('kh', 'vw+kw')}*{_weight('kh', 'kw', 'vc')}"
    tile = "for (int vw=0; vw<4; vw++) for (int vc=0; vc<4; vc++)"
    window = "for (int ci=0; ci<256; ci++) for (int kh=0; kh<3; kh++) for (int kw=0; kw<3; kw++)"
    return f"  {tile} {sums} = 0.0f;\n  {window} {tile}\n    {sums} = {sums} + {product_};\n"


def _unroll() -> str:
    lines = [f"  float c{place} = 0.0f;" for place in range(16)]
    lines.append("  for (int ci=0; ci<256; ci++) {")
    for (row, column, place), channel in product(_TAPS, range(4)):
        sums = f"c{place * 4 + channel}"
        lines.append(f"    {sums} = {sums} + {_data(row, place + column)}*{_weight(row, column, channel)};")
    lines.append("  }")
    lines += [f"  {_output(place)} = c{place};" for place in range(16)]
    return "\n".join(lines) + "\n"


def _vectorize() -> str:
    lines = [f"  float4 c{place} = (float4)(0.0f);" for place in range(4)]
    lines.append("  for (int ci=0; ci<256; ci++) {")
    for row, column, place in _TAPS:
        value = f"((float4)({_data(row, place + column)}))"
        lines.append(f"    c{place} = c{place} + {value}*vload4(0, &{_weight(row, column, 0)});")
    lines.append("  }")
    lines += [f"  vstore4(c{place}, 0, &{_output(place * 4)});" for place in range(4)]
    return "\n".join(lines) + "\n"
