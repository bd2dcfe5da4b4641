"""Products of matrices: what is one, how it is computed, and that nothing else is touched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import te, tirx
from tvm.sym import Analyzer

from tests.backends.packed.computed import wrong
from tests.backends.packed.contractions import A9, A72, AVX2, WIDE, Product, seeded
from tests.backends.packed.drawn import Excite, Gemm, Head, MatMul, Network, Pointwise
from tests.backends.packed.numbers import number
from tests.backends.packed.windows import Conv, Window
from toolchain.backends.packed.algorithms.dense import algorithm as dense_tile
from toolchain.backends.packed.algorithms.dense import loops as dense
from toolchain.backends.packed.algorithms.dense import loops as dense_weight
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.policy import candidates, legal
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Matmul, matmul, recognise
from toolchain.backends.packed.recognise.expressions import substitute
from toolchain.backends.packed.recognise.read import read

THREE = ((3, 3, 3), (1, 1, 1), (1, 1, 1), ((1, 1),) * 3)


def summed(
    left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...], factors: Callable[..., tvm.ir.Expr]
) -> Matmul | None:
    """Return what a sum over `k` of two tensors' elements is taken for."""
    a, b = te.placeholder(left, name="a"), te.placeholder(right, name="b")
    k = te.reduce_axis((0, 6), name="k")
    y = te.compute(out, lambda *place: te.sum(factors(a, b, k, *place), axis=k))
    return matmul(read(te.create_prim_func([a, b, y])))


@pytest.mark.parametrize(
    ("case", "batch", "rows"),
    [
        (Product(3, 6, 5), 1, 3),
        (Product(3, 6, 5, transposed=True), 1, 3),
        (Product(3, 6, 5, batch=(2, 4)), 1, 24),  # a constant's rows are those of all batches
        (Product(3, 6, 5, batch=(2, 4), constant=False), 8, 3),
    ],
)
def test_products_are_recognised(case: Product, batch: int, rows: int) -> None:
    found = recognise(read(case.function()))
    assert isinstance(found, Matmul)
    extents = (found.batch.extent, found.rows.extent, found.inner.extent, found.columns.extent)
    assert extents == (batch, rows, case.inner, case.columns)


def test_the_factor_with_the_outputs_last_axis_is_the_right_one() -> None:
    found = summed((5, 6), (6, 3), (3, 5), lambda a, b, k, m, n: a[n, k] * b[k, m])
    assert found is not None
    assert (found.a.buffer.name, found.b.buffer.name) == ("b", "a")


@pytest.mark.parametrize("rows", [50, 48, 54, 97])
def test_no_tile_is_computed_twice(rows: int) -> None:
    """The last piece of work may have fewer tiles of rows than the others, or only the rows that are left."""
    function = read(Product(rows, 8, 512).function())
    contraction = recognise(function)
    assert isinstance(contraction, Matmul)
    choice = DenseChoice(4, 6, 4, order="channels")
    made = dense.dense(function, contraction, choice, [None] * len(function.params), WIDE)
    outer = made.body
    assert isinstance(outer, tirx.For)
    steps = outer.body.seq[0] if isinstance(outer.body, tirx.SeqStmt) else outer.body
    assert isinstance(steps, tirx.For)
    analyzer = Analyzer()
    tiles = [
        number(
            analyzer.simplify(
                substitute(steps.extent, [(outer.loop_var, tirx.IntImm("int32", turn))], tirx.BufferLoad)
            )
        )
        for turn in range(int(outer.extent))
    ]
    assert sum(tiles) == rows // choice.rows * 8  # groups of columns


def test_no_product_is_seen_where_there_is_none() -> None:
    assert summed((3, 6), (5, 6), (3,), lambda a, b, k, m: a[m, k] * b[0, k] + 1.0) is None
    assert summed((4, 6), (4, 6), (4,), lambda a, b, k, m: a[m, k] * b[m, k]) is None  # no columns
    assert summed((3, 9), (6, 5), (3, 5), lambda a, b, k, m, n: a[m, k + n % 2] * b[k, n]) is None
    assert summed((6, 6), (6, 5), (3, 5), lambda a, b, k, _m, n: a[k, k] * b[k, n]) is None
    assert summed((3, 6), (3, 6), (3, 6), lambda a, _b, k, m, n: a[m, k] * a[m, n]) is None


@pytest.mark.parametrize("machine", [WIDE, AVX2, A72, A9])
@pytest.mark.parametrize("rows", [1, 3, 8, 197])
@pytest.mark.parametrize("columns", [1, 20, 100, 208])
def test_candidates_are_legal_and_fit_the_registers(machine: Machine, rows: int, columns: int) -> None:
    contraction = recognise(read(Product(rows, 6, columns).function()))
    assert contraction is not None
    found = candidates(contraction, machine)
    assert found[0] == dense_tile.default(contraction, machine)
    assert all(legal(choice, contraction, machine) for choice in found)
    for choice in found:
        assert isinstance(choice, DenseChoice) and choice.vectors * choice.rows < machine.registers
    for other in (
        DirectChoice(),
        DenseChoice(30),
        DenseChoice(1, rows + 1),
    ):
        assert not legal(other, contraction, machine)


@pytest.mark.slow
def test_every_candidate_computes_the_product() -> None:
    case = Product(31, 20, 90)
    found = read(case.function())
    contraction = recognise(found)
    _function, (a, _packed, bias, out), expected = case.made(WIDE)
    weight = seeded(*case.shapes())[1]
    for choice in candidates(contraction, WIDE):
        function = dense.dense(found, contraction, choice, [None] * 4, WIDE)
        library = tvm.compile(tvm.IRModule({"main": function}), target="llvm")
        packed = dense_weight.pack_weight(weight, contraction, choice, 16)
        result = tvm.runtime.tensor(out)
        library["main"](*map(tvm.runtime.tensor, (a, packed, bias)), result)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4, err_msg=str(choice))


@pytest.mark.slow
@pytest.mark.parametrize("machine", [WIDE, A72], ids=["16 lanes", "4 lanes"])
def test_networks_with_products_compute_what_onnxruntime_does(machine: Machine) -> None:
    whole = Window((5, 5, 5))
    networks = [
        Gemm(3, 37, 21, (False, True), addend="row", then="Relu"),
        Gemm(1, 64, 100, then="Erf"),
        Gemm(4, 30, 20, addend="whole", then="Softmax"),
        MatMul((2,), (), 19, 24, 33),
        MatMul((), (2,), 7, 24, 33, constant=False),
        MatMul((2, 3), (2, 3), 21, 16, 21, constant=False, transposed=True, then="Softmax"),
        MatMul((2, 3), (1, 3), 1, 24, 32, constant=False),
        Network((2, 3, 12, 12), (Conv(40, Window(*THREE)), Excite(10), Conv(16, Window()))),
        Network(
            (2, 3, 5, 5), (Conv(40, Window(*THREE)), Pointwise("Relu"), Conv(21, whole), Pointwise("Sigmoid"))
        ),
        Network((1, 20, 3, 3), (Conv(6, Window((3, 3, 3)), groups=2),)),
        Network((1, 3, 8, 16), (Conv(20, Window((3, 3, 3), (8, 8, 8))), Pointwise("softmax"))),
        Network((1, 16, 4, 4), (Head(20),)),
    ]
    assert not wrong(networks, machine)


@pytest.mark.slow
def test_nothing_beside_the_buffers_is_touched() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.backends.packed.guarded", "products"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]} {done.stderr[-2000:]}"
