"""Resizes, whose coordinates come from tables: what numpy computes, on plain and packed values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.backends.packed.computed import MACHINES, named
from toolchain.arrays import Array
from toolchain.backends.packed.layout import Layout, dense_layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AVX2, OPENCL
from toolchain.backends.packed.recognise.read import Read, read, shape_of
from toolchain.backends.packed.stages.stagewise import stagewise, with_input_rows, with_tables
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

FLOOR = 1e-5  # what TVM adds before it rounds a nearest coordinate down


@dataclass(frozen=True)
class Resize:
    """A 2-D resize; `clipped` applies ReLU first and adds another value of the output's shape."""

    channels: int
    size: tuple[int, int]
    target: tuple[int, int]
    method: str = "linear"
    at: str = "half_pixel"
    clipped: bool = False

    def read(self) -> Read:
        """Return what the unpacked function computes."""
        x = te.placeholder((2, self.channels, *self.size), name="x")
        source = topi.nn.relu(x) if self.clipped else x
        rounding = {"nearest_neighbor": "floor", "linear": ""}[self.method]
        out = topi.image.resize2d(
            source, [0.0] * 4, self.target, method=self.method, coordinate_transformation_mode=self.at,
            rounding_method=rounding,
        )  # fmt: skip
        if not self.clipped:
            return read(te.create_prim_func([x, out]))
        other = te.placeholder(out.shape, name="other")
        return read(te.create_prim_func([x, other, topi.add(out, other)]))

    def expected(self, x: Array, *others: Array) -> Array:
        """Return what it must compute, in float64."""
        found = np.maximum(x, 0).astype("f8") if self.clipped else x.astype("f8")
        for axis, (old, new) in enumerate(zip(self.size, self.target, strict=True), 2):
            found = _resized(found, axis, self._coordinates(old, new), self.method)
        return found + others[0] if others else found

    def _coordinates(self, old: int, new: int) -> Array:
        place = np.arange(new)
        if self.at == "align_corners":
            return np.asarray(place * (old - 1) / max(new - 1, 1))
        return np.asarray((place + 0.5) * old / new - 0.5 if self.at == "half_pixel" else place * old / new)


def _resized(x: Array, axis: int, where: Array, method: str) -> Array:
    last = x.shape[axis] - 1
    if method == "nearest_neighbor":
        return x.take(np.clip(np.floor(where + FLOOR).astype(int), 0, last), axis)
    first = np.floor(where).astype(int)
    shape = [-1 if each == axis else 1 for each in range(x.ndim)]
    share = (where - first).reshape(shape)
    one, other = (x.take(np.clip(first + step, 0, last), axis) for step in (0, 1))
    return np.asarray(one * (1 - share) + other * share)


CASES = (
    Resize(21, (5, 7), (20, 28)),
    Resize(32, (4, 4), (8, 8), at="align_corners"),
    Resize(16, (6, 9), (13, 31), at="asymmetric"),
    Resize(7, (9, 11), (4, 5)),
    Resize(5, (11, 6), (4, 17), at="align_corners"),  # fewer rows, more columns
    Resize(17, (3, 8), (10, 8), clipped=True),
    Resize(32, (1, 1), (3, 18), clipped=True),
    Resize(3, (5, 6), (10, 12), "nearest_neighbor", "asymmetric"),
    Resize(33, (7, 5), (11, 19), "nearest_neighbor", "asymmetric"),
    Resize(16, (8, 9), (3, 4), "nearest_neighbor", "asymmetric"),
    Resize(20, (5, 4), (15, 12), "nearest_neighbor", clipped=True),
    Resize(5, (4, 21), (8, 63), "nearest_neighbor", "asymmetric"),
    Resize(4, (9, 33), (9, 66), "nearest_neighbor", "asymmetric", clipped=True),
    Resize(3, (2, 16), (16, 128), "nearest_neighbor", "asymmetric"),
    Resize(6, (3, 3), (6, 6), "nearest_neighbor", "asymmetric"),  # rows shorter than any vector
)


def layouts_of(found: Read, kind: str, machine: Machine) -> list[Layout | None]:
    """Return the layouts of a function's parameters: plain, packed, or packed except for the output."""
    packed: list[Layout | None] = [dense_layout(machine.lanes, 4) for _ in found.params]
    if kind == "plain":
        return [None] * len(packed)
    return packed if kind == "packed" else [*packed[:-1], None]


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
@pytest.mark.parametrize("kind", ["plain", "packed", "unpacked"])
def test_a_resize_is_what_numpy_computes(kind: str, machine: Machine) -> None:
    reads = [case.read() for case in CASES]
    functions = {
        f"resize{i}": stagewise(found, layouts_of(found, kind, machine), machine).with_attr(
            "global_symbol", f"resize{i}"
        )
        for i, found in enumerate(reads)
    }
    library = tvm.compile(tvm.IRModule(functions), target_for(load_profile("x86_64")).target)
    random = np.random.default_rng(0)
    for i, (case, found) in enumerate(zip(CASES, reads, strict=True)):
        layouts = layouts_of(found, kind, machine)
        *inputs, out = (random.standard_normal(shape_of(param)).astype("f4") for param in found.params)
        stored = [
            array if layout is None else layout.pack(array)
            for array, layout in zip([*inputs, out], layouts, strict=True)
        ]
        result = tvm.runtime.tensor(np.full_like(stored[-1], np.nan))
        library[f"resize{i}"](*map(tvm.runtime.tensor, stored[:-1]), result)
        expected = case.expected(*inputs).astype("f4")
        wanted = expected if layouts[-1] is None else layouts[-1].pack(expected)
        assert np.allclose(result.numpy(), wanted, rtol=0, atol=1e-5), case


def test_an_axis_has_one_table_of_coordinates_and_one_for_each_weight() -> None:
    found, tables = with_tables(Resize(8, (4, 5), (8, 15)).read())
    shapes = sorted((shape_of(table), str(table.dtype)) for table in tables)
    each = ["float32", "float32", "int32"]
    assert shapes == [*(((8,), kind) for kind in each), *(((15,), kind) for kind in each)]
    assert found.stages[-1].buffer.same_as(found.output)


def test_a_function_without_coordinates_is_unchanged() -> None:
    x = te.placeholder((1, 8, 4, 4), name="x")
    found = read(te.create_prim_func([x, topi.nn.relu(topi.nn.pad(x, [0, 0, 1, 1]))]))
    assert with_tables(found) == (found, [])
    assert with_input_rows(found) == (found, [])


@pytest.mark.parametrize(
    ("case", "heights"),
    [
        (Resize(8, (4, 5), (8, 15)), [4]),
        (Resize(8, (4, 5), (8, 15), "nearest_neighbor", "asymmetric"), [4]),
        (Resize(8, (8, 5), (8, 15)), []),  # no row would be read twice
        (Resize(8, (5, 5), (8, 15)), []),  # most rows would be read once
        (Resize(8, (9, 5), (4, 15)), []),
        (Resize(8, (1, 5), (4, 15)), []),  # there is one row
    ],
)
def test_rows_are_computed_once_where_several_rows_of_the_output_read_them(
    case: Resize, heights: list[int]
) -> None:
    _found, rows = with_input_rows(with_tables(case.read())[0])
    assert [shape_of(row) for row in rows] == [(2, 8, height, 15) for height in heights]


@pytest.mark.parametrize(
    ("case", "repeats"),
    [
        (Resize(3, (5, 6), (10, 12), "nearest_neighbor", "asymmetric"), True),
        (Resize(4, (9, 33), (9, 99), "nearest_neighbor", "asymmetric", clipped=True), True),
        (Resize(4, (5, 6), (10, 13), "nearest_neighbor", "asymmetric"), False),
        (Resize(4, (5, 6), (10, 12)), False),
    ],
)
def test_numbers_that_are_repeated_in_a_row_are_loaded_once_and_need_no_rows_of_their_own(
    case: Resize, repeats: bool
) -> None:
    found = case.read()
    text = str(stagewise(found, layouts_of(found, "plain", AVX2), AVX2.of(1)).script())
    assert ("T.Shuffle" in text) == repeats
    assert (with_input_rows(with_tables(found)[0], repeats=True)[1] == []) == repeats


@pytest.mark.parametrize(
    "case",
    [
        Resize(8, (4, 33), (9, 66), "nearest_neighbor", "asymmetric"),  # rows come from a table
        Resize(8, (3, 3), (6, 6), "nearest_neighbor", "asymmetric"),
    ],
)
def test_rows_stay_where_no_vector_can_be_repeated(case: Resize) -> None:
    with_table = with_tables(case.read())[0]
    assert with_input_rows(with_table, repeats=True)[1] != []


def test_one_number_beside_a_nearest_resize_is_no_row() -> None:
    x, k = te.placeholder((1, 4, 3, 8), name="x"), te.placeholder((), name="k")
    out = topi.multiply(
        topi.image.resize2d(
            x, [0.0] * 4, (6, 16), method="nearest_neighbor", coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        k,
    )  # fmt: skip
    found = read(te.create_prim_func([x, k, out]))
    assert "T.Shuffle" in str(stagewise(found, [None] * 3, AVX2.of(1)).script())


def test_a_device_computes_a_nearest_resize_number_by_number() -> None:
    found = CASES[7].read()
    text = str(stagewise(found, layouts_of(found, "plain", OPENCL), OPENCL.of(1)).script())
    assert "T.Shuffle" not in text


def test_loads_that_a_condition_guards_are_not_moved_out_of_it() -> None:
    x = te.placeholder((1, 4, 3, 3), name="x")

    def value(n: te.Var, c: te.Var, h: te.Var, w: te.Var) -> te.Expr:
        return te.if_then_else(w < 6, x[n, c, h // 4, w // 2], 0.0)

    found = read(te.create_prim_func([x, te.compute((1, 4, 12, 9), value)]))
    assert with_input_rows(found) == (found, [])


def test_code_for_a_resize_has_its_arithmetic_in_no_inner_loop() -> None:
    found = Resize(16, (4, 4), (8, 8)).read()
    layouts = [dense_layout(AVX2.lanes, 4)] * 2
    text = str(stagewise(found, layouts, AVX2.of(1)).script())
    assert "floor" in text and "floor" not in text[text.index("resize[") :]
