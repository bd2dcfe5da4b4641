"""TVM's text for shuffles, in OpenCL's words."""

from __future__ import annotations

import pytest

from toolchain.lowering.dialects.opencl_c import corrected


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("float4(a, b, c, d)", "(float4)(a, b, c, d)"),
        ("vstore4(half8(x), 0, p + 0)", "vstore4((half8)(x), 0, p + 0)"),
        ("vload4(0, p + 8)[3]", "vload4(0, p + 8).s3"),
        ("vload16(0, p + ((i * 4) + 8))[12]", "vload16(0, p + ((i * 4) + 8)).sc"),
        (
            "float4(vload4(0, p + 0)[0], vload4(0, q)[1], x[2], y)",
            "(float4)(vload4(0, p + 0).s0, vload4(0, q).s1, x[2], y)",
        ),
    ],
)
def test_vectors_and_lanes_are_opencl(written: str, read: str) -> None:
    assert corrected(written) == read


@pytest.mark.parametrize(
    "text",
    [
        "((float4)(0.0f, 0.0f, 0.0f, 0.0f))",
        "convert_int4((a < b))",
        "vstore4(vload4(0, p + 4), 0, q + (i * 4));",
        "float4 sums[4];",
        "x[vload_count]",
    ],
)
def test_what_is_opencl_stays(text: str) -> None:
    assert corrected(text) == text
