"""Indices and divisors that no network should have: code stays inside its buffers all the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.lowering.executable import virtual_machine
from tests.lowering.scheduled import by_rows
from toolchain.arrays import Array
from toolchain.lowering.graph.confined import CONFINED
from toolchain.lowering.graph.pipeline import fuse
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow

TARGET = target_for(load_profile("x86_64")).target
Write = Callable[..., relax.Expr]


def computed(write: Write, *inputs: Array) -> Array:
    """Return what generated code makes of inputs."""
    builder = relax.BlockBuilder()
    variables = [
        relax.Var(f"x{place}", relax.TensorType(each.shape, str(each.dtype)))
        for place, each in enumerate(inputs)
    ]
    with builder.function("main", variables):
        with builder.dataflow():
            out = builder.emit_output(write(*variables))
        builder.emit_func_output(out)
    machine = virtual_machine(by_rows(fuse(builder.get(), TARGET)), TARGET)
    found: Array = machine["main"](*map(tvm.runtime.tensor, inputs)).numpy()
    return found


DATA = np.arange(12, dtype="f4").reshape(3, 4)
FAR = np.array([[-(2**62), -1, 0, 1], [2, 3, 2**40, 2**62]], "i8")
"""Indices of three rows: inside, one beside, and where no memory is."""


def test_an_index_beyond_an_axis_reads_at_its_end() -> None:
    rows = computed(lambda x, i: relax.op.take(x, i, axis=0), DATA, FAR)
    np.testing.assert_array_equal(rows, DATA[np.clip(FAR, 0, 2)])
    elements = computed(lambda x, i: relax.op.gather_elements(x, i, axis=0), DATA, FAR)
    np.testing.assert_array_equal(elements, np.take_along_axis(DATA, np.clip(FAR, 0, 2), 0))
    pairs = FAR.reshape(4, 2)
    found = computed(lambda x, i: relax.op.gather_nd(x, i), DATA, pairs)
    np.testing.assert_array_equal(found, DATA[np.clip(pairs[:, 0], 0, 2), np.clip(pairs[:, 1], 0, 3)])


def test_an_index_beyond_an_axis_writes_at_its_end() -> None:
    updates = np.full((1, 4), 100, "f4")
    indices = np.array([[-(2**62), 1, 3, 2**62]], "i8")
    expected = DATA.copy()
    np.put_along_axis(expected, np.clip(indices, 0, 2), updates, 0)
    found = computed(lambda x, i, u: relax.op.scatter_elements(x, i, u, axis=0), DATA, indices, updates)
    np.testing.assert_array_equal(found, expected)
    places = np.array([[2**62, -(2**62)], [1, 2]], "i8")
    expected = DATA.copy()
    expected[[2, 1], [0, 2]] = [7, 8]
    found = computed(
        lambda x, i, u: relax.op.scatter_nd(x, i, u, "update"), DATA, places, np.array([7, 8], "f4")
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["i4", "i8", "u1"])
def test_no_division_of_integers_stops_the_processor(kind: str) -> None:
    least = np.iinfo(kind).min
    x = np.array([7, least, 5, least, 9], kind)
    by = np.array([2, 0, 0, 255 if kind == "u1" else -1, 3], kind)
    quotient = computed(relax.op.floor_divide, x, by)
    # 0 counts as 1; the least number divided by -1 wraps to itself
    expected = np.array([3, least, 5, least, 3], kind)
    np.testing.assert_array_equal(quotient, expected)
    rest = computed(relax.op.floor_mod, x, by)
    np.testing.assert_array_equal(rest, np.array([1, 0, 0, 0, 0], kind))


@pytest.mark.parametrize("coordinate", [np.nan, np.inf, -np.inf, 3e38, 2.0**40])
def test_a_coordinate_that_no_integer_holds_samples_what_lies_outside(coordinate: float) -> None:
    image = np.ones((1, 1, 4, 4), "f4")
    grid = np.zeros((1, 2, 2, 2), "f4")
    grid[0, 0, 0, 0] = coordinate
    found = computed(
        lambda x, g: relax.op.image.grid_sample(x, g, padding_mode="zeros"),
        image,
        np.moveaxis(grid, 3, 1).copy(),
    )
    # Of NaN nothing is promised but that no memory is read beyond the image.
    assert found[0, 0, 0, 0] == 0 or (np.isnan(coordinate) and np.isnan(found[0, 0, 0, 0]))
    assert found[0, 0, 1, 1] == 1


def test_every_operator_whose_values_decide_an_address_has_a_rule() -> None:
    for name in CONFINED:
        assert tvm.ir.Op.get(name), name
