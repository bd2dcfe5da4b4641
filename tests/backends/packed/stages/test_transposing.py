"""Values come into packed layouts and out of them as numpy puts them there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tvm

from tests.backends.packed.computed import HALF_MACHINES, MACHINES, named
from toolchain.backends.packed.layout import Layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AVX512, OPENCL
from toolchain.backends.packed.stages.convert import applies, copy_function
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

NONE = (0, 0, 0, 0)


@dataclass(frozen=True)
class Case:
    shape: tuple[int, ...]
    halo: tuple[int, ...] = NONE


CASES = (
    Case((1, 32, 7, 9)),  # rows that are shorter than vectors follow each other
    Case((2, 21, 5, 33), (1, 0, 2, 3)),
    Case((1, 3, 4, 64), (1, 1, 1, 1)),  # fewer channels than a block has
    Case((2, 40, 1, 31)),
    Case((1, 17, 300), (4, 0)),
    Case((3, 20, 70), (0, 0)),
    Case((1, 24, 3, 4, 32), (1, 1, 1, 1, 1, 1)),
    Case((1, 36, 96, 97)),  # enough to share out the squares of one row
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine",
    [
        *MACHINES[1:],
        pytest.param(MACHINES[0], marks=pytest.mark.full),
        pytest.param(HALF_MACHINES[0], marks=pytest.mark.full),
    ],
    ids=named,
)
def test_there_and_back(machine: Machine) -> None:
    functions = {}
    for i, case in enumerate(CASES):
        layout = Layout(machine.lanes, case.halo)
        for kind, way in (("pack", (None, layout)), ("unpack", (layout, None))):
            name = f"{kind}{i}"
            func = copy_function(case.shape, machine.dtype, way[0], way[1], machine)
            functions[name] = func.with_attr("global_symbol", name)
    library = tvm.compile(tvm.IRModule(functions), target_for(load_profile("x86_64")).target)
    random = np.random.default_rng(0)
    for i, case in enumerate(CASES):
        layout = Layout(machine.lanes, case.halo)
        x = random.standard_normal(case.shape).astype(machine.dtype)
        packed = layout.pack(x)
        out = tvm.runtime.tensor(np.full_like(packed, np.nan))
        library[f"pack{i}"](tvm.runtime.tensor(x), out)
        assert np.array_equal(out.numpy(), packed), case
        back = tvm.runtime.tensor(np.full_like(x, np.nan))
        library[f"unpack{i}"](tvm.runtime.tensor(packed), back)
        assert np.array_equal(back.numpy(), x), case


@pytest.mark.slow
@pytest.mark.parametrize("lanes", range(2, 17))
def test_blocks_of_any_number_of_channels(lanes: int) -> None:
    """Integers have blocks of as many channels as there are inputs."""
    shape, layout = (1, 23, 16, 16), Layout(lanes, (1, 1, 1, 1))
    func = copy_function(shape, "int32", None, layout, AVX512).with_attr("global_symbol", "pack")
    library = tvm.compile(tvm.IRModule({"pack": func}), target_for(load_profile("x86_64")).target)
    x = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    out = tvm.runtime.tensor(np.full_like(layout.pack(x), -1))
    library["pack"](tvm.runtime.tensor(x), out)
    assert np.array_equal(out.numpy(), layout.pack(x))


def test_squares_that_would_be_mostly_done_twice_are_left_to_the_general_rule() -> None:
    assert applies((1, 32, 28, 28), Layout(16, (1, 1, 1, 1)), AVX512)
    assert not applies((1, 32, 17, 17), Layout(16, (1, 1, 1, 1)), AVX512)
    assert not applies((1, 32, 3, 3), Layout(16, NONE), AVX512)
    assert applies((1, 32, 7, 7), Layout(16, NONE), AVX512)


def test_on_a_device_no_two_squares_share_columns() -> None:
    assert applies((1, 32, 28, 28), Layout(4, NONE), OPENCL)
    assert not applies((1, 32, 7, 7), Layout(4, NONE), OPENCL)
