"""What the compiler is given."""

from __future__ import annotations

import pytest

from toolchain.devices.kernel import Kernel
from toolchain.errors import UsageError
from toolchain.testbeds.mali.store import prepared

HEAD = "__kernel void main_kernel(__global float* x)"
TVM = f"{HEAD};\n{HEAD} {{ x[0] = 1; }}\n"


def test_work_group_size_is_inserted() -> None:
    text = prepared(Kernel("main_kernel", TVM, (8, 4, 2), (1, 1, 1)))
    assert text.count("reqd_work_group_size(8, 4, 2)") == 2, "in the declaration and the definition"
    assert text.endswith("{ x[0] = 1; }\n")


def test_vector_types_are_complete() -> None:
    text = prepared(Kernel("main_kernel", TVM, (1, 1, 1), (1, 1, 1)))
    assert "#define vload4 load4\n" in text and "#define vstore16 store16\n" in text


def test_missing_kernel_is_reported() -> None:
    with pytest.raises(UsageError, match="kernel other has no such kernel"):
        prepared(Kernel("other", TVM, (1, 1, 1), (1, 1, 1)))


def test_private_arrays_are_split_into_elements() -> None:
    """Of a pointer that is cast Mesa makes memory, where Arm's compiler has registers."""
    text = prepared(Kernel("main_kernel", TVM, (1, 1, 1), (1, 1, 1)))
    (stored,) = [
        line for line in text.splitlines() if "store2(float2 v, size_t i, __private float *p)" in line
    ]
    assert stored.endswith("{ p[2 * i + 0] = v.s0; p[2 * i + 1] = v.s1; }")
