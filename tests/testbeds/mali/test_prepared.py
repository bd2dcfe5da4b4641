"""What the compiler is given."""

from __future__ import annotations

import pytest

from toolchain.devices.kernel import Kernel
from toolchain.errors import UsageError
from toolchain.testbeds.mali.store import prepared

HEAD = "__kernel void main_kernel(__global float* x)"
TVM = f"{HEAD};\n{HEAD} {{ x[0] = 1; }}\n"


def test_the_work_group_stands_in_it() -> None:
    text = prepared(Kernel("main_kernel", TVM, (8, 4, 2), (1, 1, 1)))
    assert text.count("reqd_work_group_size(8, 4, 2)") == 2, "in the declaration and the definition"
    assert text.endswith("{ x[0] = 1; }\n")


def test_vectors_are_whole_ones() -> None:
    text = prepared(Kernel("main_kernel", TVM, (1, 1, 1), (1, 1, 1)))
    assert "#define vload4 load4\n" in text and "#define vstore16 store16\n" in text


def test_a_kernel_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match="kernel other has no such kernel"):
        prepared(Kernel("other", TVM, (1, 1, 1), (1, 1, 1)))


def test_a_work_items_own_arrays_are_taken_element_by_element() -> None:
    """Of a pointer that is cast Mesa makes memory, where Arm's compiler has registers."""
    text = prepared(Kernel("main_kernel", TVM, (1, 1, 1), (1, 1, 1)))
    (stored,) = [
        line for line in text.splitlines() if "store2(float2 v, size_t i, __private float *p)" in line
    ]
    assert stored.endswith("{ p[2 * i + 0] = v.s0; p[2 * i + 1] = v.s1; }")
