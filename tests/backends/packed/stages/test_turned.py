"""Operands that are read across their rows: what numpy computes, by whole vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.backends.packed.computed import HALF_MACHINES, MACHINES, named
from toolchain.arrays import Array
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AVX2, OPENCL
from toolchain.backends.packed.recognise.read import Read, read, shape_of
from toolchain.backends.packed.stages.stagewise import stagewise
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for


@dataclass(frozen=True)
class Case:
    """Inputs' shapes, what TVM computes of them, and numpy."""

    shapes: tuple[tuple[int, ...], ...]
    define: Callable[..., te.Tensor]
    expected: Callable[..., Array]
    dtype: str = "float32"

    def read(self) -> Read:
        inputs = [te.placeholder(shape, self.dtype, name=f"x{i}") for i, shape in enumerate(self.shapes)]
        return read(te.create_prim_func([*inputs, self.define(*inputs)]))


def transpose(shape: tuple[int, ...], *order: int, dtype: str = "float32") -> Case:
    return Case((shape,), lambda x: topi.transpose(x, order), lambda x: x.transpose(order), dtype)


CASES = (
    transpose((16, 32), 1, 0),
    transpose((2, 37, 41), 0, 2, 1),  # the last squares share rows and columns with those before
    transpose((1, 3, 17, 19), 0, 2, 3, 1),  # three columns: no square
    transpose((1, 5, 7, 6), 0, 2, 3, 1),  # squares smaller than a vector
    transpose((2, 5, 3, 19), 0, 3, 1, 2),  # rows of 3, but 15 neighbours
    transpose((1, 9, 3, 64), 0, 2, 3, 1),
    transpose((3, 9, 11, 13), 3, 2, 1, 0),
    transpose((40, 300), 1, 0),  # enough for pieces along both axes
    transpose((4, 16, 33), 0, 2, 1, dtype="int8"),
    transpose((23, 33), 1, 0, dtype="int32"),
    transpose((23, 18), 1, 0, dtype="int64"),
    Case(
        ((1, 20, 36), (1, 36, 1), (1, 36, 20)),
        lambda x, k, b: topi.add(topi.multiply(topi.transpose(x, (0, 2, 1)), k), b),
        lambda x, k, b: x.transpose(0, 2, 1) * k + b,
    ),
    Case(  # both are read across their rows
        ((19, 36), (19, 36)),
        lambda x, y: topi.subtract(topi.transpose(x), topi.transpose(y)),
        lambda x, y: (x - y).T,
    ),
    Case(  # across rows along two different axes, which no square fits
        ((9, 10, 11), (9, 10, 11)),
        lambda x, y: topi.add(topi.transpose(x, (2, 1, 0)), topi.transpose(y, (2, 1, 0))),
        lambda x, y: (x + y).transpose(2, 1, 0),
    ),
    Case(
        ((12, 9), (9, 12)),
        lambda x, y: topi.transpose(topi.add(x, topi.transpose(y))),
        lambda x, y: x.T + y,
    ),
    Case(  # of heads: neighbours are 64 numbers of a row
        ((1, 21, 48),),
        lambda x: topi.transpose(topi.reshape(x, (1, 21, 3, 16)), (0, 2, 3, 1)),
        lambda x: x.reshape(1, 21, 3, 16).transpose(0, 2, 3, 1),
    ),
    Case(
        ((10, 24),),
        lambda x: topi.reshape(topi.transpose(x), (4, 60)),
        lambda x: x.T.reshape(4, 60),
    ),
    Case(
        ((17, 24),),
        lambda x: topi.exp(topi.transpose(x)),
        lambda x: np.exp(x.T),
    ),
    Case(((17, 24), ()), lambda x, k: topi.multiply(topi.transpose(x), k), lambda x, k: x.T * k),
    Case(((17, 24), ()), lambda x, k: topi.multiply(x, k), lambda x, k: x * k),
    Case(  # only a part has a value
        ((17, 24),),
        lambda x: topi.transpose(topi.nn.pad(x, (1, 0), (0, 3))),
        lambda x: np.pad(x, ((1, 0), (0, 3))).T,
    ),
    Case(
        ((30, 24),),
        lambda x: topi.transpose(topi.strided_slice(x, [3, 2], [28, 22], [1, 1])),
        lambda x: x[3:28, 2:22].T,
    ),
    Case(
        ((24, 30),),
        lambda x: topi.transpose(topi.strided_slice(x, [23, 0], [0, 30], [-2, 1])),
        lambda x: x[23:0:-2].T,
    ),
)


def errors(cases: tuple[Case, ...], machine: Machine) -> list[str]:
    reads = [case.read() for case in cases]
    functions = {
        f"f{i}": stagewise(found, [None] * len(found.params), machine).with_attr("global_symbol", f"f{i}")
        for i, found in enumerate(reads)
    }
    library = tvm.compile(tvm.IRModule(functions), target_for(load_profile("x86_64")).target)
    random = np.random.default_rng(0)
    wrong = []
    for i, (case, found) in enumerate(zip(cases, reads, strict=True)):
        *inputs, out = (np.asarray(random.normal(size=shape_of(each)) * 9) for each in found.params)
        given = [each.astype(case.dtype) for each in inputs]
        result = tvm.runtime.tensor(np.full(out.shape, 77, case.dtype))
        library[f"f{i}"](*map(tvm.runtime.tensor, given), result)
        if not np.allclose(result.numpy(), case.expected(*given), rtol=1e-5, atol=0):
            wrong.append(f"{i}: {case}")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES, ids=named)
def test_what_is_read_across_its_rows_is_what_numpy_computes(machine: Machine) -> None:
    assert not errors(CASES, machine)


@pytest.mark.slow
@pytest.mark.parametrize("machine", HALF_MACHINES, ids=named)
def test_numbers_of_two_bytes(machine: Machine) -> None:
    halves = (
        transpose((70, 45), 1, 0, dtype="float16"),
        transpose((2, 9, 33), 0, 2, 1, dtype="float16"),
    )
    assert not errors(halves, machine)


def text(case: Case, machine: Machine) -> str:
    found = case.read()
    return str(stagewise(found, [None] * len(found.params), machine).script())


@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[5], CASES[11], CASES[15]])
def test_whole_vectors_are_loaded_and_transposed_in_registers(case: Case) -> None:
    assert "T.Shuffle" in text(case, AVX2.of(1))


@pytest.mark.parametrize(
    "case", [CASES[2], CASES[19], CASES[20], Case(((8, 16),), topi.nn.relu, lambda x: np.maximum(x, 0))]
)
def test_what_no_square_fits_is_computed_along_its_rows(case: Case) -> None:
    assert "T.Shuffle" not in text(case, AVX2.of(1))


def test_a_device_computes_number_by_number() -> None:
    assert "T.Shuffle" not in text(CASES[0], OPENCL.of(1))


def test_a_square_takes_three_shuffles_of_a_vector() -> None:
    assert text(transpose((8, 8), 1, 0), AVX2.of(1)).count("T.Shuffle") == 24
