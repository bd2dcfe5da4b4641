"""Places of extremes: ArgMax and ArgMin where all values are equal, extreme or no numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax

from tests.e2e.onnx_nodes.cases import Case
from tests.e2e.onnx_nodes.judge import PASSED, judged
from tests.models.graphs import graph_of, tensor_info
from toolchain.models.importing.importer import import_module
from toolchain.models.preparing.infer_shapes import infer_shapes

KINDS = ("int8", "uint8", "int32", "int64", "float16", "float32")
Way = tuple[str, int, int, int]
WAYS: tuple[Way, ...] = tuple(product(("ArgMax", "ArgMin"), (0, 1, -1), (0, 1), (0, 1)))
"""Operator, axis, keepdims, select_last_index."""


def places(kind: str, shape: tuple[int, ...], ways: Sequence[Way] = WAYS) -> onnx.ModelProto:
    """Return a network with a node for each way."""
    nodes, outputs = [], []
    for number, (operator, axis, keep, last) in enumerate(ways):
        how = {"axis": axis, "keepdims": keep, "select_last_index": last}
        nodes.append(helper.make_node(operator, ["x"], [f"y{number}"], **how))
        found = [extent if each != axis % len(shape) else 1 for each, extent in enumerate(shape)]
        kept = found if keep else [extent for each, extent in enumerate(found) if each != axis % len(shape)]
        outputs.append(tensor_info(f"y{number}", kept, onnx.TensorProto.INT64))
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return graph_of(nodes, [tensor_info("x", shape, code)], outputs, {})


def expected(x: np.ndarray, ways: Sequence[Way] = WAYS) -> list[np.ndarray]:
    """Return numpy's places; numpy takes the first of equal values."""
    found = []
    for operator, axis, keep, last in ways:
        pick = np.argmax if operator == "ArgMax" else np.argmin
        place = pick(np.flip(x, axis) if last else x, axis=axis, keepdims=bool(keep))
        found.append(x.shape[axis] - 1 - place if last else place)
    return found


def rows(kind: str) -> np.ndarray:
    """Return [8, 3, 5] values: least, greatest and mixed rows, ties, zeros."""
    of = np.finfo(kind) if "float" in kind else np.iinfo(kind)
    least, greatest = (-np.inf, np.inf) if "float" in kind else (of.min, of.max)
    x = np.random.default_rng(0).integers(0, 3, (8, 3, 5)).astype(kind)
    x[0], x[1], x[2], x[3], x[4] = least, greatest, of.min, of.max, 0
    x[5, :, ::2] = least
    x[6, :, 1::2] = greatest
    return x


@cache
def compiled(kind: str) -> Callable[..., Any]:
    module = import_module(infer_shapes(places(kind, (8, 3, 5)), "test"), "test")
    main: Callable[..., Any] = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())["main"]
    return main


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_place_of_an_extreme_is_that_of_numpy(kind: str) -> None:
    x = rows(kind)
    for way, found, due in zip(WAYS, compiled(kind)(tvm.runtime.tensor(x)), expected(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), due, str(way))


@pytest.mark.slow
def test_place_is_in_the_row_whatever_is_nan() -> None:
    x = rows("float32")
    x[0], x[1, :, :2], x[2, 0] = np.nan, np.nan, np.nan
    for way, found in zip(WAYS, compiled("float32")(tvm.runtime.tensor(x)), strict=True):
        assert set(found.numpy().flat) <= {*range(x.shape[way[1]])}, way
        if way[1] != 0 and not way[3]:
            assert (found.numpy()[0] == 0).all()


def place_cases(device: str) -> list[Case]:
    """Return a case for each type; of fewer on devices, whose drivers compile for long."""
    ways = [way for way in WAYS if way[1] == -1 and way[2] == way[3]]
    kinds = KINDS if device == "cpu" else ("uint8", "int64", "float32")
    return [
        Case(kind, "", places(kind, (8, 3, 5), ways), (rows(kind),), tuple(expected(rows(kind), ways)), 0, 0)
        for kind in kinds
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("device", ["cpu", "opencl", "cuda"])
def test_place_is_right_in_code_of_each_device(device: str) -> None:
    verdicts = {each.case: (each.verdict, each.reason) for each in judged(place_cases(device), device=device)}
    assert verdicts == {case.name: (PASSED, "") for case in place_cases(device)}
