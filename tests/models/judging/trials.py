"""Operators with inputs at which a float32 program may lose digits, and what is right for them.

Templates are onnx's own tests of each operator. Their floats are moved to where sums lose digits (large
means), functions have their tails, and comparisons meet ties; others add up many values, or are of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.e2e.onnx_nodes.cases import node_cases
from tests.e2e.onnx_nodes.table import operators
from tests.models.graphs import graph_of, tensor_info
from tests.models.judging.exact import far, in_double, real, rounded, softmax
from toolchain.arrays import Array

WEAK = 1e-4
"""Error of onnxruntime, relative to the largest value, from which on it is no judge: a tenth of what `verify`
allows."""

Inputs = dict[str, Array]


def _halves(x: Array) -> Array:
    return np.asarray(np.rint(2 * x) / 2)


MOVES: dict[str, Callable[[Array], Array]] = {
    "large means": lambda x: x + 1000,
    "large values": lambda x: x * 50,
    "small values": lambda x: x * 1e-4,
    "far below zero": lambda x: x - 20,
    "ties": _halves,
    "equal values": lambda x: np.full_like(x, 1.5),
    "zeros": np.zeros_like,
}
"""What is done to the floats of a template, by its name."""

NOT_MOVED = {
    "GroupNormalization": "onnx's evaluator takes the variance in float32",
    **dict.fromkeys(
        ("DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"),
        "their floats are scales",
    ),
    "LRN": "onnx's evaluator divides by another size",
    "LpNormalization": "onnx's evaluator takes no absolute values",
    "MaxPool": "which of equal values has the index is not defined",
}
"""Operators whose templates stay as they are, and why."""


@dataclass(frozen=True)
class Trial:
    """A model of one operator with inputs, and what is right."""

    operator: str
    where: str
    model: onnx.ModelProto
    inputs: Inputs
    due: list[Array] | None = None

    def exact(self) -> list[Array]:
        """Return the outputs in float64, or exact integers."""
        return in_double(self.model, self.inputs) if self.due is None else self.due


@cache
def templates() -> dict[str, list[tuple[onnx.ModelProto, Inputs, Sequence[Array]]]]:
    """Return operator -> models of onnx's tests with float32 inputs, at most four of each."""
    about, found = operators(), dict[str, list[tuple[onnx.ModelProto, Inputs, Sequence[Array]]]]()
    for case in node_cases():
        kinds = {str(getattr(array, "dtype", "list")) for array in (*case.inputs, *case.outputs)}
        if (
            case.outside
            or not case.inputs
            or "_expanded" in case.name
            or not kinds >= {"float32"} - {"list"}
            or "list" in kinds
        ):
            continue
        mine = found.setdefault(about[case.name], [])
        if len(mine) < 4:
            names = [value.name for value in case.model.graph.input]
            mine.append((case.model, dict(zip(names, case.inputs, strict=True)), case.outputs))
    return found


def moved(operator: str) -> Iterator[Trial]:
    """Yield trials of an operator's templates that onnx's evaluator computes as onnx expects."""
    for model, inputs, expected in templates().get(operator, ()):
        yield Trial(operator, "as onnx tests it", model, inputs, list(expected))
        if operator in NOT_MOVED or not _trusted(model, inputs, expected):
            continue
        for where, move in MOVES.items():
            floats = {k: move(v).astype(v.dtype) if v.dtype == np.float32 else v for k, v in inputs.items()}
            yield Trial(operator, where, model, floats)


def _trusted(model: onnx.ModelProto, inputs: Inputs, expected: Sequence[Array]) -> bool:
    try:
        return far(expected, in_double(model, inputs)) < WEAK
    except Exception:  # the evaluator lacks some types and operators; its errors have no common parent
        return False


def _network(operator: str, weights: dict[str, Array], inputs: Inputs, **how: object) -> onnx.ModelProto:
    domain = str(how.pop("domain", ""))
    order = how.pop("order", [*inputs, *weights])
    ends = [tensor_info(k, v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for k, v in inputs.items()]
    node = helper.make_node(operator, order, ["y"], domain=domain, **how)
    kind = (
        TensorProto.UINT8 if operator.startswith("QL") or operator == "QuantizeLinear" else TensorProto.FLOAT
    )
    graph = graph_of([node], ends, [tensor_info("y", None, kind)], weights, 22)
    graph.ir_version = 10
    if domain:
        graph.opset_import.append(helper.make_opsetid(domain, 1))
    return graph


def _normal(*shape: int, mean: float = 0.0, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).normal(size=shape) + mean).astype(np.float32)


def _long(
    operator: str,
    x: Array,
    weights: dict[str, Array] | None = None,
    own: Callable[[Array], Array] | None = None,
    **how: object,
) -> Trial:
    """Return a trial of many values; `own` is the operator in float64 where onnx's evaluator has it wrong."""
    where = f"{'x'.join(map(str, x.shape))} values" + (", large means" if abs(x.mean()) > 5 else "")
    due = None if own is None else [own(x.astype(np.float64))]
    return Trial(operator, where, _network(operator, weights or {}, {"x": x}, **how), {"x": x}, due)


def _normed(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Return deviations from the mean in standard deviations; epsilon is added to these."""
    return np.asarray((x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + epsilon))


def _grouped(x: Array, weights: Mapping[str, Array], groups: int) -> Array:
    rows = x.reshape(len(x), groups, -1)
    apart = rows - rows.mean(2, keepdims=True)
    unit = (apart / np.sqrt((apart * apart).mean(2, keepdims=True) + np.float32(1e-5))).reshape(x.shape)
    scale, shift = (each.astype(np.float64).reshape(-1, 1, 1) for each in weights.values())
    return np.asarray(unit * scale + shift)


def _local_response(x: Array) -> Array:
    """Return `LRN` of five channels with the default factors."""
    squares = np.pad(x * x, [(0, 0), (2, 2), (0, 0), (0, 0)])
    return np.asarray(x / (1 + 1e-4 / 5 * sum(squares[:, at : at + x.shape[1]] for at in range(5))) ** 0.75)


def large() -> Iterator[Trial]:
    """Yield operators over many values, and over values with a large mean."""
    row = np.array([1], np.int64)
    sums = ("Sum", "Mean", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")
    for name in sums:
        for mean in (0.5, 100.0):
            x = _normal(2, 1 << 18, mean=mean) * (1 if mean < 1 else 0.1)
            yield _long(f"Reduce{name}", np.abs(x) if name == "LogSum" else x, {"axes": row})
    for mean in (0.0, 1000.0):
        for name in ("Softmax", "LogSoftmax"):
            yield _long(name, _normal(2, 1 << 16, mean=mean), axis=-1)
        wide = _normal(2, 4, 64, 64, mean=mean)
        yield _long("MeanVarianceNormalization", wide, own=lambda x: _normed(x, (0, 2, 3), 1e-9))
        scale = {"s": _normal(4, mean=1), "b": _normal(4)}
        yield _long("InstanceNormalization", wide, scale)
        grouped = partial(_grouped, weights=scale, groups=2)
        yield _long("GroupNormalization", wide, scale, own=grouped, num_groups=2)
        norm = {"s": _normal(4096, mean=1), "b": _normal(4096)}
        yield _long("LayerNormalization", _normal(4, 4096, mean=mean), norm)
        yield _long("RMSNormalization", _normal(4, 4096, mean=mean), {"s": norm["s"]})
        yield _long(
            "LpNormalization",
            _normal(4, 4096, mean=mean),
            own=lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
        )
        yield _long("GlobalAveragePool", _normal(1, 2, 512, 512, mean=mean))
        yield _long(
            "GlobalLpPool",
            _normal(1, 2, 512, 512, mean=mean),
            own=lambda x: np.sqrt((x * x).sum((2, 3), keepdims=True)),
        )
        yield _long("AveragePool", _normal(1, 2, 64, 64, mean=mean), kernel_shape=[32, 32])
        yield _long("LRN", _normal(1, 64, 8, 8, mean=mean / 100), own=_local_response, size=5)
        yield _long("CumSum", _normal(2, 1 << 14, mean=mean / 1000), {"axis": np.array(1)})
        yield _long("MatMul", _normal(4, 1 << 15, mean=mean / 1000), {"w": _normal(1 << 15, 4, seed=1)})
        yield _long("Gemm", _normal(4, 1 << 15, mean=mean / 1000), {"w": _normal(1 << 15, 4, seed=1)})
        yield _long("Conv", _normal(1, 512, 8, 8, mean=mean / 100), {"w": _normal(4, 512, 3, 3, seed=1)})
        yield _long(
            "ConvTranspose", _normal(1, 512, 8, 8, mean=mean / 100), {"w": _normal(512, 4, 3, 3, seed=1)}
        )
        yield _long("Einsum", _normal(4, 1 << 14, mean=mean / 1000), equation="ij->i")
    signal = np.sin(np.arange(1 << 12) * 0.05)[None, :, None].astype(np.float32)
    yield _long("DFT", signal, {"n": np.array(1 << 12), "axis": np.array(1)}, onesided=1)
    window = {"step": np.array(160), "window": np.hanning(400).astype(np.float32), "n": np.array(400)}
    yield _long("STFT", signal, window, onesided=1)


def integers() -> Iterator[Trial]:
    """Yield quantised operators over their whole range, with what exact integers give."""
    every = np.arange(256, dtype=np.uint8)[None]
    some = np.random.default_rng(0).integers(0, 256, (4, 64)).astype(np.uint8)
    half = np.float32(1 / 256)

    def of(
        operator: str, where: str, x: Inputs, parameters: list[object], due: Array, **how: object
    ) -> Trial:
        stored = {f"p{n}": np.asarray(p) for n, p in enumerate(parameters) if not isinstance(p, str)}
        order = [p if isinstance(p, str) else f"p{n}" for n, p in enumerate(parameters)]
        domain = "" if operator in STANDARD else "com.microsoft"
        name = operator if not domain else f"com.microsoft.{operator}"
        return Trial(name, where, _network(operator, stored, x, order=order, domain=domain, **how), x, [due])

    f, u = np.float32, np.uint8
    for size in (1, 2, 256, 1000):
        x = np.resize(some, (4, size))
        yield of("QLinearSoftmax", f"rows of {size}", {"x": x}, ["x", f(0.05), u(10), half, u(0)],
                 rounded(softmax(real(x, 0.05, 10)), 1 / 256, 0, "u1"), axis=-1, opset=13)  # fmt: skip
    for scale in (0.05, 0.5):
        x = real(every, scale, 128)
        sigmoid = rounded(1 / (1 + np.exp(-x)), 1 / 256, 0, "u1")
        yield of(
            "QLinearSigmoid", f"steps of {scale}", {"x": every}, ["x", f(scale), u(128), half, u(0)], sigmoid
        )
        leaky = rounded(np.where(x < 0, f(0.1) * x, x), scale, 128, "u1")
        yield of("QLinearLeakyRelu", f"steps of {scale}", {"x": every}, ["x", *[f(scale), u(128)] * 2],
                 leaky, alpha=0.1)  # fmt: skip
    other = some[::-1].copy()
    a, b = real(some, 0.05, 120), real(other, 0.07, 130)
    pair: list[object] = ["x", f(0.05), u(120), "z", f(0.07), u(130), f(0.11), u(125)]
    two = {"x": some, "z": other}
    yield of("QLinearAdd", "random bytes", two, pair, rounded(a + b, 0.11, 125, "u1"))
    yield of("QLinearMul", "random bytes", two, pair, rounded(a * b, 0.11, 125, "u1"))
    weight = np.random.default_rng(1).integers(0, 256, (64, 8)).astype(u)
    product = real(some, 0.05, 120) @ real(weight, 0.01, 130)
    for where, x, right in (
        ("random bytes", some, product),
        (
            "largest bytes",
            np.full_like(some, 255),
            real(np.full_like(some, 255), 0.05, 120) @ real(weight, 0.01, 130),
        ),
    ):
        operands: list[object] = ["x", f(0.05), u(120), weight, f(0.01), u(130)]
        yield of("QLinearMatMul", where, {"x": x}, [*operands, f(0.2), u(128)],
                 rounded(right, 0.2, 128, "u1"))  # fmt: skip
        yield of("QGemm", where, {"x": x}, [*operands, "", f(0.2), u(128)],
                 rounded(right, 0.2, 128, "u1"), transB=0)  # fmt: skip
    floats = (np.arange(-600, 600) / 8).astype(f)[None]
    yield of(
        "QuantizeLinear", "halves", {"x": floats}, ["x", f(0.25), u(128)], rounded(floats, 0.25, 128, "u1")
    )
    pool = np.random.default_rng(2).integers(0, 256, (1, 2, 16, 16)).astype(u)
    mean = real(pool, 0.05, 120).mean((2, 3), keepdims=True)
    parameters: list[object] = ["x", f(0.05), u(120), f(0.01), u(128)]
    yield of(
        "QLinearGlobalAveragePool", "random bytes", {"x": pool}, parameters, rounded(mean, 0.01, 128, "u1")
    )


def places() -> Iterator[Trial]:
    """Yield operators that choose places and extremes, over rows of extremes and ties."""
    for kind in ("uint8", "int8", "int32", "int64", "float32"):
        ends = (-np.inf, np.inf) if kind == "float32" else (np.iinfo(kind).min, np.iinfo(kind).max)
        x = np.random.default_rng(0).integers(0, 3, (6, 5)).astype(kind)
        x[0], x[1], x[2] = ends[0], ends[1], 0
        code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        for operator, pick in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
            node = helper.make_node(operator, ["x"], ["y"], axis=1)
            ends_of = [tensor_info("x", (6, 5), code)], [tensor_info("y", (6, 1), TensorProto.INT64)]
            model = graph_of([node], *ends_of, {})
            yield Trial(operator, f"extremes of {kind}", model, {"x": x}, [pick(x, axis=1, keepdims=True)])
        if kind in ("uint8", "int8"):  # onnxruntime's TopK has other types
            continue
        node = helper.make_node("TopK", ["x", "k"], ["v", "y"], axis=1)
        both = [tensor_info("v", (6, 3), code), tensor_info("y", (6, 3), TensorProto.INT64)]
        order = np.argsort(-x.astype(object), axis=1, kind="stable")[:, :3].astype(np.int64)
        due = [np.take_along_axis(x, order, 1), order]
        model = graph_of([node], [tensor_info("x", (6, 5), code)], both, {"k": np.array([3])})
        yield Trial("TopK", f"extremes of {kind}", model, {"x": x}, due)


STANDARD = frozenset({"QLinearMatMul", "QLinearConv", "QuantizeLinear"})


def trials() -> Iterator[Trial]:
    """Yield all trials."""
    for operator in sorted(templates()):
        yield from moved(operator)
    yield from large()
    yield from integers()
    yield from places()
