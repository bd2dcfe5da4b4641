"""onnx's own backend tests as cases: a model whose parameters are frozen, inputs, expected outputs."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from toolchain.arrays import Array
from toolchain.models.onnx_graph import all_nodes, input_values

# Inputs that say how an operator is meant, not what it works on: sizes, axes, counts. A network's file holds
# them; the tests hand them over.
PARAMETERS: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{
        f"Reduce{name}": (1,)
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
}

SMALL_TYPES = frozenset(
    getattr(TensorProto, name)
    for name in TensorProto.DataType.keys()  # noqa: SIM118 - protobuf's enum is no mapping
    if name.startswith(("FLOAT4", "FLOAT8", "INT4", "UINT4", "INT2", "UINT2"))
)
"""Types of at most 4 bits, and the floats of 8."""

TRAINING = frozenset({"ai.onnx.preview.training"})
RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)

OTHERWISE = {
    f"test_resize_downsample_scales_{mode}_align_corners": "corners aligned by the scale"
    for mode in ("linear", "cubic")
}
"""Tests whose numbers are neither onnxruntime's nor PyTorch's, which count (decision 24) -> what is meant."""


@dataclass(frozen=True)
class Case:
    """One test: a model, and what it gives for its inputs.

    Attributes
    ----------
    name
        onnx's.
    outside
        Why it is none of those that ought to pass; empty: it is.
    model
        Its parameters stored in it.
    inputs, outputs
        Of the model's true inputs and of its outputs, in their order.
    """

    name: str
    outside: str
    model: onnx.ModelProto
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    rtol: float
    atol: float

    @property
    def operators(self) -> tuple[str, ...]:
        """The types of its nodes, in their order, once each."""
        found = {
            f"{n.domain}.{n.op_type}".lstrip(".").removeprefix("ai.onnx.") for n in self.model.graph.node
        }
        return tuple(sorted(found))


@cache
def node_cases() -> tuple[Case, ...]:
    """Return a case for each test of a single operator, with some of its type's parameters frozen."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of the arithmetic that makes the expected outputs
        tests = collect_testcases(None)
    by_name = {test.name: _parameters(test.model.graph) for test in tests}
    return tuple(
        case
        for test in tests
        for case in _cases(
            test.name,
            test.model,
            test.data_sets,
            test.rtol,
            test.atol,
            # An operator written out by its definition has the same inputs, which others read.
            by_name.get(test.name.partition("_expanded")[0], frozenset()),
        )
    )


@cache
def network_cases() -> tuple[Case, ...]:
    """Return a case for each small network that onnx's wheel brings with inputs and outputs."""
    return tuple(
        case
        for kind in ("pytorch-converted", "pytorch-operator", "simple")
        for test in load_model_tests(kind=kind)
        for case in _stored(kind, Path(test.model_dir), test.rtol, test.atol)
    )


def _stored(kind: str, folder: Path, rtol: float, atol: float) -> Iterator[Case]:
    model = onnx.load(folder / "model.onnx")
    sets = [
        tuple(_read(each, name) for name in ("input", "output"))
        for each in sorted(folder.glob("test_data_set_*"))
    ]
    return _cases(f"{kind}/{folder.name}", model, sets, rtol, atol)


def _read(folder: Path, name: str) -> list[Any]:
    count = len(list(folder.glob(f"{name}_*.pb")))
    found = []
    for number in range(count):
        raw = (folder / f"{name}_{number}.pb").read_bytes()
        try:
            found.append(numpy_helper.to_array(onnx.TensorProto.FromString(raw)))
        except Exception:  # a sequence, or an optional: the case is outside
            found.append(None)
    return found


def _cases(
    name: str,
    model: onnx.ModelProto,
    sets: Iterable[Any],
    rtol: float,
    atol: float,
    parameters: frozenset[str] = frozenset(),
) -> Iterator[Case]:
    for number, (inputs, outputs) in enumerate(sets):
        outside = OTHERWISE.get(name, "") or _outside(model, [*inputs, *outputs])
        frozen, left = (model, list(inputs)) if outside else _frozen(model, list(inputs), parameters)
        label = f"{name}/{number}" if number else name
        yield Case(label, outside, frozen, tuple(left), tuple(outputs), rtol, atol)


def _outside(model: onnx.ModelProto, arrays: list[Any]) -> str:
    nodes = list(all_nodes(model.graph))
    if any(node.domain in TRAINING for node in nodes):
        return "training"
    values = [*model.graph.input, *model.graph.output]
    kinds = {value.type.WhichOneof("value") for value in values}
    if "sequence_type" in kinds or any(node.op_type.startswith(("Sequence", "SplitToSeq")) for node in nodes):
        return "sequence"
    if "optional_type" in kinds or any(node.op_type.startswith("Optional") for node in nodes):
        return "optional"
    codes = {value.type.tensor_type.elem_type for value in values}
    codes |= {
        int(attribute.i)
        for node in nodes
        for attribute in node.attribute
        if attribute.name in ("to", "dtype")
    }
    if TensorProto.STRING in codes:
        return "string"
    if codes & SMALL_TYPES:
        return "4-bit types and 8-bit floats"
    if any(node.op_type in RANDOM for node in nodes):
        return "random"
    if not all(isinstance(array, (np.ndarray, np.generic)) for array in arrays):
        return "no tensors"
    return ""


def _parameters(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the names of what operators take for parameters."""
    return frozenset(
        node.input[place]
        for node in all_nodes(graph)
        for place in PARAMETERS.get(node.op_type, ())
        if place < len(node.input)
    )


def _frozen(
    model: onnx.ModelProto, inputs: list[Any], also: frozenset[str]
) -> tuple[onnx.ModelProto, list[Array]]:
    """Return a copy that holds its parameters, its inputs of the shapes that they have; and what they are."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    parameters = _parameters(graph) | also
    given = list(input_values(graph))
    del graph.input[:]
    left = []
    for value, array in zip(given, inputs, strict=True):
        array = np.asarray(array)
        if value.name in parameters:
            copy.ir_version = max(copy.ir_version, 4)  # of before, what is stored is an input as well
            graph.initializer.append(numpy_helper.from_array(array, value.name))
            continue
        shape = value.type.tensor_type.shape
        if len(shape.dim) == array.ndim:
            for dim, extent in zip(shape.dim, array.shape, strict=True):
                dim.dim_value = extent
        graph.input.append(value)
        left.append(array)
    return copy, left
