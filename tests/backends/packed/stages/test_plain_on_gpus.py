"""Plain values on GPUs: one launch, with an item for each vector or number."""

from __future__ import annotations

import re

import pytest
from tvm import te, topi

from toolchain.backends.packed.machines import machine_of
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.stages.stagewise import stagewise
from toolchain.profiles import load_profile
from toolchain.targets.target import device_target


@pytest.mark.parametrize(("shape", "items"), [((128, 64), 2048), ((37, 128), 37 * 128), ((5, 3), 15)])
def test_a_transpose_is_one_launch_of_many_items(shape: tuple[int, int], items: int) -> None:
    x = te.placeholder(shape, name="x")
    found = read(te.create_prim_func([x, topi.transpose(x, (1, 0))]))
    machine = machine_of(device_target(load_profile("cuda"), "cuda", "", arch="sm_90"))
    code = str(stagewise(found, [None, None], machine))
    extents = [int(number) for number in re.findall(r'launch_thread\("\w+\.\w", (\d+)\)', code)]
    launched = 1
    for extent in extents:
        launched *= extent
    assert code.count('launch_thread("blockIdx.x"') == 1
    assert items <= launched < 2 * items
