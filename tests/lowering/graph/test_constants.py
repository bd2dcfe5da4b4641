"""Folding of constants: TVM's own pass is the judge of the values."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tvm import relax
from tvm.relax import op

from tests.models.graphs import graph_of, tensor_info
from tests.models.zoo.test_zoo import SMALL
from toolchain.boards.inventory.lookup import find_target
from toolchain.lowering.functions.tasks import extract_tasks
from toolchain.lowering.graph.constants import NUMPYS, OPERATORS, fold_constants
from toolchain.lowering.graph.pipeline import fuse
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.targets.target import target_for

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(3)
FLOATS = RANDOM.uniform(0.1, 2, (2, 3, 4)).astype(np.float32)
OTHERS = RANDOM.uniform(0.1, 2, (3, 1)).astype(np.float32)
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 2.5, -1.5], np.float32)
INTEGERS = np.array([[3, -5, 7]], np.int32)
BINARY = ("add", "divide", "maximum", "minimum", "multiply", "subtract")
COMPARING = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
LOGICAL = ("logical_and", "logical_or")
UNARY = ("abs", "ceil", "exp", "floor", "log", "negative", "rsqrt", "sqrt", "square", "tanh")
ODD_ONES = ("isfinite", "isinf", "isnan", "abs", "negative", "floor", "ceil")


def const(array: Any) -> Any:
    return relax.const(tvm.runtime.tensor(np.asarray(array)))


def applied(name: str, *arrays: Any) -> Any:
    return getattr(op, name)(*map(const, arrays))


EXPRESSIONS: dict[str, Callable[[], Any]] = {
    **{name: partial(applied, name, FLOATS, OTHERS) for name in BINARY},
    **{name: partial(applied, name, FLOATS, FLOATS[:1]) for name in COMPARING},
    **{name: partial(applied, name, FLOATS > 1, OTHERS > 1) for name in LOGICAL},
    **{name: partial(applied, name, FLOATS) for name in UNARY},
    **{f"odd {name}": partial(applied, name, ODD) for name in ODD_ONES},
    "logical_not": lambda: op.logical_not(const(FLOATS > 1)),
    "where": lambda: op.where(const(FLOATS > 1), const(FLOATS), const(OTHERS)),
    "where, no dimension": lambda: op.where(
        const(np.bool_(True)), const(np.float32(6)), const(np.float32(0))
    ),
    "astype": lambda: op.astype(const(FLOATS), "float16"),
    "astype, integers": lambda: op.astype(const(FLOATS - 1), "int64"),
    "integers": lambda: op.multiply(const(INTEGERS), const(INTEGERS)),
    "float16": lambda: op.sqrt(const(FLOATS.astype(np.float16))),
    "broadcast_to": lambda: op.broadcast_to(const(OTHERS), [2, 3, 4]),
    "concat": lambda: op.concat([const(FLOATS), const(FLOATS[:, :1])], axis=1),
    "concat, last": lambda: op.concat([const(FLOATS), const(FLOATS)], axis=-1),
    "expand_dims": lambda: op.expand_dims(const(FLOATS), [0, -1]),
    "flatten": lambda: op.flatten(const(FLOATS)),
    "permute_dims": lambda: op.permute_dims(const(FLOATS), [2, 0, 1]),
    "permute_dims, reversed": lambda: op.permute_dims(const(FLOATS)),
    "reshape": lambda: op.reshape(const(FLOATS), [4, -1]),
    "reshape, no dimension": lambda: op.reshape(const(FLOATS[:1, :1, :1]), []),
    "shape_to_tensor": lambda: op.shape_to_tensor(relax.ShapeExpr([2, 3])),
    "squeeze": lambda: op.squeeze(const(FLOATS[:1, :, :1])),
    "squeeze, one": lambda: op.squeeze(const(FLOATS[:1, :, :1]), [-1]),
    "strided_slice": lambda: op.strided_slice(const(FLOATS), [2, 1], [0, 1], [4, 3], [2, 1]),
    "strided_slice, far": lambda: op.strided_slice(const(FLOATS), [-1], [-3], [99]),
    "take": lambda: op.take(const(FLOATS), const(np.array([[2, 0]])), axis=1),
    "take, flat": lambda: op.take(const(FLOATS.ravel()), const(np.array([5])), axis=0),
}
LEFT_TO_TVM: dict[str, Callable[[], Any]] = {
    "integer division": lambda: op.divide(const(INTEGERS), const(np.int32(2))),
    "sum": lambda: op.sum(const(FLOATS), axis=1),
    "index from the end": lambda: op.strided_slice(const(FLOATS), [2], [3], [0], [-1]),
}


Build = Callable[[Callable[[Any], Any]], Sequence[Any]]


def module_of(build: Build) -> tvm.IRModule:
    """Return a network that returns its input, and beside it what `build` emits."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.Tuple([x, *build(builder.emit)]))
        builder.emit_func_output(result)
    return builder.get()


def values(module: tvm.IRModule) -> list[np.ndarray]:
    """Return what such a network returns beside its input; all constants by now."""
    (binding,) = (binding for block in module["main"].body.blocks for binding in block.bindings)
    return [field.value.numpy() for field in binding.value.fields[1:]]


def by_tvm(module: tvm.IRModule) -> tvm.IRModule:
    passes = (relax.transform.FoldConstant, relax.transform.CanonicalizeBindings)
    return tvm.transform.Sequential([make() for make in (*passes, relax.transform.DeadCodeElimination)])(
        module
    )


def calls_of_constants(module: tvm.IRModule) -> list[str]:
    """Return the operators that are still to be computed, and from constants alone."""

    def constant(expression: Any) -> bool:
        if isinstance(expression, relax.Tuple):
            return all(map(constant, expression.fields))
        fixed = (tvm.ir.Constant, tvm.ir.GlobalVar, relax.ShapeExpr)
        return isinstance(expression, fixed) or expression in found

    found: dict[Any, str] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call) and all(map(constant, binding.value.args)):
                found[binding.var] = str(binding.value.op.name)
    return list(found.values())


@pytest.fixture
def tvm_folds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        pytest.fail("left to TVM")

    monkeypatch.setattr(relax.transform, "FoldConstant", refused)


def test_every_operator_of_the_table_is_tried() -> None:
    tried = {f"relax.{name.removeprefix('odd ').split(',')[0]}" for name in EXPRESSIONS}
    assert set(OPERATORS) <= tried
    assert len(OPERATORS) > len(NUMPYS)


@pytest.mark.slow
def test_values_are_those_of_tvm() -> None:
    module = module_of(lambda emit: [emit(make()) for make in EXPRESSIONS.values()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folded = fold_constants(module)
    for name, ours, theirs in zip(EXPRESSIONS, values(folded), values(by_tvm(module)), strict=True):
        assert ours.dtype == theirs.dtype, name
        # Ulps: TVM's exp, log and tanh are series of its own.
        tolerance = 2e-3 if ours.dtype == np.float16 else 1e-6
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.usefixtures("tvm_folds_nothing")
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_numpy_does_it_alone(name: str) -> None:
    assert not calls_of_constants(fold_constants(module_of(lambda emit: [emit(EXPRESSIONS[name]())])))


@pytest.mark.parametrize("name", LEFT_TO_TVM)
def test_what_numpy_would_do_otherwise_is_tvms(name: str) -> None:
    def build(emit: Callable[[Any], Any]) -> list[Any]:
        result = emit(LEFT_TO_TVM[name]())
        return [result, emit(op.negative(result)), emit(op.negative(const(FLOATS)))]

    module = module_of(build)
    for ours, theirs in zip(values(fold_constants(module)), values(by_tvm(module)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(
    shape=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    permutation=st.randoms(use_true_random=False),
    dtype=st.sampled_from(["float32", "int8", "float64"]),
)
@settings(max_examples=50)
def test_moved_elements_are_where_numpy_has_them(shape: list[int], permutation: Any, dtype: str) -> None:
    """A transposed weight, split and joined again: rows longer and shorter than what moves at a time."""
    array = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    axes = permutation.sample(range(len(shape)), len(shape))
    last = shape[axes[-1]]
    cuts = [0, permutation.randint(1, last), last]

    def build(emit: Callable[[Any], Any]) -> list[Any]:
        moved = emit(op.permute_dims(const(array), axes))
        parts = [
            emit(op.strided_slice(moved, [-1], [start], [stop]))
            for start, stop in itertools.pairwise(cuts)
            if start < stop
        ]
        return [moved, emit(op.reshape(emit(op.concat(parts, -1)), [-1]))]

    moved, flat = values(fold_constants(module_of(build)))
    np.testing.assert_array_equal(moved, array.transpose(axes))
    np.testing.assert_array_equal(flat, array.transpose(axes).ravel())


def test_what_depends_on_the_input_stays() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            factor = builder.emit(op.sqrt(const(OTHERS)))
            unread = builder.emit(op.exp(const(FLOATS)))
            assert unread is not None
            scaled = builder.emit(op.multiply(x, factor))
            result = builder.emit_output(op.add(scaled, op.negative(factor)))
        builder.emit_func_output(result)
    before = builder.get()
    text = before.script()
    after = fold_constants(before)
    (block,) = after["main"].body.blocks
    assert [binding.value.op.name for binding in block.bindings] == ["relax.multiply", "relax.add"]
    np.testing.assert_array_equal(block.bindings[0].value.args[1].value.numpy(), np.sqrt(OTHERS))
    assert before.script() == text


def clipped(folder: Path) -> Path:
    """Write a convolution with a constant's transpose as weight, a batch norm by itself, two clips."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(3, 8, 3, 3)),
        "lo": np.float32(0),
        "hi": np.float32(6),
        "none": np.float32(np.nan),
        **{f"bn.{name}": random.uniform(0.5, 1, 8) for name in ("gamma", "beta", "mean", "var")},
    }
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0, 2, 3]),
        helper.make_node("Conv", ["data", "t"], ["c"], pads=[1] * 4),
        helper.make_node("Clip", ["c", "lo", "hi"], ["r"]),
        helper.make_node("BatchNormalization", ["r", *[name for name in weights if "bn" in name]], ["n"]),
        helper.make_node("Clip", ["n", "none", "hi"], ["out"]),
    ]
    shape = [1, 3, 6, 6]
    graph = graph_of(
        nodes,
        [tensor_info("data", shape)],
        [tensor_info("out", [1, 8, 6, 6])],
        {name: np.asarray(array, np.float32) for name, array in weights.items()},
    )
    path = folder / "clipped.onnx"
    onnx.save(graph, path)
    return path


@pytest.mark.usefixtures("tvm_folds_nothing")
def test_bounds_of_clips_are_numbers(tmp_path: Path) -> None:
    model = load_model(str(clipped(tmp_path)), ModelOptions())
    assert not calls_of_constants(fold_constants(model.module))


def test_a_network_with_bounds_is_one_task(tmp_path: Path) -> None:
    model = load_model(str(clipped(tmp_path)), ModelOptions())
    fused = fuse(model.module, target_for(find_target("x86_64").profile).target)
    (task,) = extract_tasks(fused)
    assert task.shapes[0] == (1, 3, 6, 6) and task.shapes[-1] == (1, 8, 6, 6)
    assert task.shapes.count(()) == 4  # both clips' bounds


@pytest.mark.usefixtures("tvm_folds_nothing")
@pytest.mark.parametrize(
    "name",
    [
        "mobilenet",
        "squeezenet_v1.1",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("inception_v3", "resnet3d-18")),
    ],
)
def test_nothing_is_left_to_tvm_in_the_zoo(name: str) -> None:
    shapes = {"data": SMALL[name]} if name in SMALL else {}
    module = load_model(f"zoo:{name}", ModelOptions(shapes=shapes)).module
    assert calls_of_constants(module)
    assert not calls_of_constants(fold_constants(module))
