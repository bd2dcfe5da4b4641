"""Pieces of work run as a machine says, and keep what they need where it says: for all algorithms alike."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
import tvm_ffi
from tvm import te, tirx, topi

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.dense.loops import DenseChoice
from toolchain.backends.packed.algorithms.depthwise.algorithm import DepthwiseChoice
from toolchain.backends.packed.algorithms.direct.choice import DirectChoice
from toolchain.backends.packed.algorithms.general import GENERAL
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice
from toolchain.backends.packed.layout import Layout, dense_layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.machines import AARCH64
from toolchain.backends.packed.pieces import WorkItems
from toolchain.backends.packed.recognise.contraction import Matmul, recognise
from toolchain.backends.packed.recognise.read import read
from toolchain.backends.packed.stages.convert import copy_function

WIDTHS = (2, 4, 8, 16)
GPU = replace(AARCH64, pieces=WorkItems(64), widths=WIDTHS)


def convolution(choice: Choice, machine: Machine, groups: int = 1) -> tirx.PrimFunc:
    """Return a convolution with SiLU, whose sigmoid is written out."""
    x = te.placeholder((1, 16, 12, 12), name="x")
    w = te.placeholder((16, 16 // groups, 3, 3), name="w")
    conv = (
        topi.nn.group_conv2d_nchw(x, w, 1, 1, 1, groups) if groups > 1 else topi.nn.conv2d_nchw(x, w, 1, 1, 1)
    )
    found = read(te.create_prim_func([x, w, topi.multiply(conv, topi.sigmoid(conv))]))
    contraction = recognise(found)
    algorithm = algorithm_of(choice)
    layouts = [Layout(4, algorithm.halo(contraction, choice, machine)), None, Layout(4, (1, 1, 1, 1))]
    return algorithm.function(found, contraction, choice, layouts, machine)


def product(machine: Machine) -> tirx.PrimFunc:
    a, b = te.placeholder((24, 43), name="a"), te.placeholder((43, 30), name="b")
    k = te.reduce_axis((0, 43), name="k")
    y = te.compute((24, 30), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="y")
    found = read(te.create_prim_func([a, b, y]))
    contraction = recognise(found)
    assert isinstance(contraction, Matmul)
    contraction = replace(contraction, weight=None)  # its panels are packed by each piece
    choice = DenseChoice(2, 4, 2)
    return algorithm_of(choice).function(found, contraction, choice, [None] * 3, machine)


def softmax(machine: Machine) -> tirx.PrimFunc:
    x = te.placeholder((64, 40), name="x")
    found = read(te.create_prim_func([x, topi.nn.softmax(x)]))
    return algorithm_of(GENERAL).function(found, None, GENERAL, [None, None], machine)


def stem(machine: Machine) -> tirx.PrimFunc:
    """Return a convolution of a plain picture: rows of it are held, of any length."""
    x, w = te.placeholder((1, 3, 12, 12), name="x"), te.placeholder((16, 3, 3, 3), name="w")
    found = read(te.create_prim_func([x, w, topi.nn.conv2d_nchw(x, w, 2, 1, 1)]))
    choice = DirectChoice(2, 5)
    layouts = [Layout(1, (1, 1, 1, 1)), None, dense_layout(4, 4)]
    return algorithm_of(choice).function(found, recognise(found), choice, layouts, machine)


def pool(machine: Machine) -> tirx.PrimFunc:
    x = te.placeholder((1, 16, 63, 63), name="x")
    y = topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max", False, "NCHW", False)
    found, layout = read(te.create_prim_func([x, y])), dense_layout(4, 4)
    return algorithm_of(GENERAL).function(found, None, GENERAL, [layout, layout], machine)


MADE = {
    "stem": stem,
    "pool": pool,
    "direct": lambda machine: convolution(DirectChoice(2, 4), machine),
    "depthwise": lambda machine: convolution(DepthwiseChoice(4), machine, groups=16),
    "winograd": lambda machine: convolution(WinogradChoice(2, 4, 2, (4, 4)), machine),
    "dense": product,
    "softmax": softmax,
    "pack": lambda machine: copy_function((1, 16, 64, 64), "float32", None, dense_layout(4, 4), machine),
    "halo": lambda machine: copy_function((1, 3, 9, 9), "float32", None, Layout(1, (1, 1, 1, 1)), machine),
}


def loops(function: tirx.PrimFunc, kind: tirx.ForKind) -> int:
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(function.body, [(tirx.For, found.append)])
    return sum(loop.kind == kind for loop in found)


def widths(function: tirx.PrimFunc) -> set[int]:
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(function.body, [(tirx.For, found.append)])
    return {int(loop.extent) for loop in found if loop.kind == tirx.ForKind.VECTORIZED}


def scopes(function: tirx.PrimFunc) -> set[str]:
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(function.body, [(tirx.AllocBuffer, found.append)])
    return {each.buffer.scope() for each in found}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_pieces_are_bound_where_the_machine_binds_them(name: str) -> None:
    bound, looped = MADE[name](GPU), MADE[name](AARCH64)
    assert loops(looped, tirx.ForKind.PARALLEL) >= 1
    assert loops(bound, tirx.ForKind.PARALLEL) == 0
    started: list[tirx.AttrStmt] = []
    tvm_ffi.structural_walk(bound.body, [(tirx.AttrStmt, started.append)])
    assert [each.attr_key for each in started if each.attr_key == "thread_extent"]


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_what_a_piece_keeps_lies_where_the_machine_says(name: str) -> None:
    assert scopes(MADE[name](AARCH64)) <= {"global"}
    between = {"global"} if name == "winograd" else set()  # of its three kernels
    assert scopes(MADE[name](GPU)) == {"local"} | between or not scopes(MADE[name](GPU))


@pytest.mark.parametrize("name", MADE)
def test_vectors_have_the_widths_that_there_are(name: str) -> None:
    assert widths(MADE[name](GPU)) <= {1, *WIDTHS}


def test_other_vectors_are_there_where_a_machine_cuts_them_itself() -> None:
    assert any(not widths(MADE[name](AARCH64)) <= {1, *WIDTHS} for name in MADE)


@pytest.mark.parametrize("shape", [(70_000, 200), (1, 66_000, 3, 200), (80_000, 2, 2, 2)])
def test_no_grid_has_more_groups_than_a_gpu_runs(shape: tuple[int, ...]) -> None:
    """Along its second and third axis; along the first there may be 2^31."""
    x = te.placeholder(shape, name="x")
    found = read(te.create_prim_func([x, topi.nn.relu(x)]))
    function = algorithm_of(GENERAL).function(found, None, GENERAL, [None, None], GPU)
    groups: dict[str, int] = {}

    def launch(node: tirx.AttrStmt) -> None:
        if node.attr_key == "thread_extent":
            groups[node.node.thread_tag] = int(node.value)

    tvm_ffi.structural_walk(function.body, [(tirx.AttrStmt, launch)])
    assert prod(groups.values()) >= max(shape), "of groups and of items"
    assert all(groups.get(f"blockIdx.{axis}", 1) <= 65_535 for axis in "yz"), groups
