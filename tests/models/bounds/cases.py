"""A network of one node for every operator whose values decide an address or a division."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from toolchain.arrays import Array

RANDOM = np.random.default_rng(26)
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes
    ----------
    inputs
        By name, in the node's order, in range.
    shape
        Of the first output; others are left out.
    judged
        Input -> from where to where onnxruntime takes its values.
    stored
        Inputs that are constants.
    """

    operator: str
    inputs: Mapping[str, Array]
    shape: tuple[int, ...]
    judged: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    stored: tuple[str, ...] = ()
    domain: str = ""
    opset: int = 21

    @property
    def name(self) -> str:
        """What tests call it."""
        attributes = "".join(f" {key}={value}" for key, value in self.attributes.items())
        return f"{self.operator}{attributes}"

    @property
    def given(self) -> dict[str, Array]:
        """The inputs that are no constants."""
        return {name: value for name, value in self.inputs.items() if name not in self.stored}

    def model(self) -> onnx.ModelProto:
        """Return the network."""
        outputs = ["y", "mask"] if self.domain == MICROSOFT else ["y"]
        node = helper.make_node(
            self.operator, list(self.inputs), outputs, "it", domain=self.domain, **dict(self.attributes)
        )
        first = list(self.inputs.values())[1 if self.operator == "Where" else 0]
        kind = helper.np_dtype_to_tensor_dtype(first.dtype)
        if self.operator in ("GatherElements", "OneHot", MICROSOFT):
            kind = onnx.TensorProto.FLOAT
        if self.domain == MICROSOFT:
            kind = onnx.TensorProto.FLOAT
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in self.given.items()
        ]
        graph = helper.make_graph(
            [node],
            "one",
            values,
            [helper.make_tensor_value_info("y", kind, self.shape)],
            [numpy_helper.from_array(self.inputs[name], name) for name in self.stored],
        )
        sets = [helper.make_opsetid("", self.opset)]
        if self.domain:
            sets.append(helper.make_opsetid(self.domain, 1))
        return helper.make_model(graph, opset_imports=sets, ir_version=10)


def _floats(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def _whole(low: int, high: int, *shape: int) -> Array:
    return RANDOM.integers(low, high, shape)


def _cell(operator: str, gates: int) -> Case:
    weights = {"w": _floats(1, gates * 2, 4), "r": _floats(1, gates * 2, 2), "b": _floats(1, gates * 4)}
    inputs = {"x": _floats(3, 2, 4), **weights, "lengths": np.array([1, 3], np.int32)}
    attributes = {"hidden_size": 2}
    return Case(operator, inputs, (3, 1, 2, 2), {"lengths": (0, 3)}, attributes, ("w", "r", "b"))


def _dynamic_cell() -> Case:
    state = _floats(1, 2, 2)
    inputs = {
        "x": _floats(3, 2, 4),
        "w": _whole(-127, 128, 1, 4, 8).astype(np.int8),
        "r": _whole(-127, 128, 1, 2, 8).astype(np.int8),
        "b": _floats(1, 16),
        "lengths": np.array([1, 3], np.int32),
        "h": state,
        "c": state,
        "p": _floats(1, 6),
        **{f"{name}{part}": value for name in "wr" for part, value in
           {"s": np.array([0.01], np.float32), "z": np.array([0], np.int8)}.items()},
    }  # fmt: skip
    stored = tuple(name for name in inputs if name not in ("x", "lengths"))
    attributes = {"hidden_size": 2}
    judged = {"lengths": (0, 3)}
    return Case("DynamicQuantizeLSTM", inputs, (3, 1, 2, 2), judged, attributes, stored, MICROSOFT)


_TABLE = _floats(8, 4)
_IMAGES = _floats(2, 3, 8, 8)
_REGIONS = np.array([[0, 0, 3, 3], [1, 2, 7.5, 6]], np.float32)
_SIGNED = np.array([[3, -1, 5, -2, 7]])

CASES = (
    Case("Gather", {"x": _TABLE, "i": np.array([1, -8, 7])}, (3, 4), {"i": (-8, 7)}),
    Case(
        "Gather",
        {"x": _TABLE, "i": np.array([[1, -4], [3, 0]], np.int32)},
        (8, 2, 2),
        {"i": (-4, 3)},
        {"axis": 1},
    ),
    Case("GatherElements", {"x": _TABLE, "i": _whole(-8, 8, 3, 2)}, (3, 2), {"i": (-8, 7)}),
    Case("GatherND", {"x": _TABLE, "i": np.array([[1], [-8], [7]])}, (3, 4), {"i": (-8, 7)}),
    Case(
        "GatherND",
        {"x": _floats(3, 4, 5), "i": _whole(-4, 4, 3, 2, 1)},
        (3, 2, 5),
        {"i": (-4, 3)},
        {"batch_dims": 1},
    ),
    Case("GatherND", {"x": _floats(4, 4, 5), "i": _whole(-4, 4, 6, 2)}, (6, 5), {"i": (-4, 3)}),
    Case(
        "ScatterElements",
        {"x": _TABLE, "i": np.array([[1, -2, 3, 0], [2, 3, 4, 5]]), "u": _floats(2, 4)},
        (8, 4),
        {"i": (-8, 7)},
    ),
    Case(
        "ScatterElements",
        {"x": _floats(3, 4, 5), "i": np.array([[[1, -2], [0, 2]], [[0, 1], [2, 0]]]), "u": _floats(2, 2, 2)},
        (3, 4, 5),
        {"i": (-3, 2)},
        {"reduction": "add"},
    ),
    Case(
        "Scatter",
        {"x": _TABLE, "i": np.array([[1, -2]]), "u": _floats(1, 2)},
        (8, 4),
        {"i": (-8, 7)},
        opset=10,
    ),
    Case(
        "ScatterND",
        {"x": _TABLE, "i": np.array([[1], [-8], [7]]), "u": _floats(3, 4)},
        (8, 4),
        {"i": (-8, 7)},
    ),
    Case(
        "ScatterND",
        {"x": _floats(4, 4, 5), "i": _whole(-4, 4, 6, 2), "u": _floats(6, 5)},
        (4, 4, 5),
        {"i": (-4, 3)},
        {"reduction": "max"},
    ),
    Case(
        "ReverseSequence",
        {"x": _TABLE, "lengths": np.array([1, 8, 3, 0])},
        (8, 4),
        {"lengths": (0, 8)},
        {"batch_axis": 1, "time_axis": 0},
    ),
    Case(
        "TensorScatter",
        {"x": _floats(2, 1, 4, 4), "u": _floats(2, 1, 2, 4), "begin": np.array([2, 1])},
        (2, 1, 4, 4),
        {"begin": (0, 2)},
        opset=24,
    ),
    Case(
        "TensorScatter",
        {"x": _floats(2, 1, 4, 4), "u": _floats(2, 1, 2, 4), "begin": np.array([3, 2**62 + 1])},
        (2, 1, 4, 4),
        {},
        {"mode": "circular"},
        opset=24,
    ),
    Case(
        "RoiAlign",
        {"x": _IMAGES, "regions": _REGIONS, "image": np.array([1, 0])},
        (2, 3, 2, 2),
        {"image": (0, 1)},
        {"output_height": 2, "output_width": 2},
    ),
    Case(
        "MaxRoiPool",
        {"x": _IMAGES, "regions": np.array([[1, 0, 0, 3, 3], [0, 1, 2, 7, 6]], np.float32)},
        (2, 3, 2, 2),
        attributes={"pooled_shape": [2, 2]},
    ),
    Case(
        "MaxUnpool",
        {"x": _floats(1, 1, 2, 2), "i": np.array([[[[0, 9], [3, 4]]]])},
        (1, 1, 4, 4),
        {"i": (0, 15)},
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    _cell("LSTM", 4),
    _cell("GRU", 3),
    _cell("RNN", 1),
    _dynamic_cell(),
    Case(
        "EmbedLayerNormalization",
        {
            "ids": np.array([[1, 7]], np.int32),
            "segments": np.array([[0, 3]], np.int32),
            "words": _TABLE,
            "places": _TABLE,
            "kinds": _floats(4, 4),
            "gamma": np.ones(4, np.float32),
            "beta": np.ones(4, np.float32),
        },
        (1, 2, 4),
        {"ids": (0, 7), "segments": (0, 3)},
        stored=("words", "places", "kinds", "gamma", "beta"),
        domain=MICROSOFT,
    ),
    *(
        Case(
            operator,
            {"x": _whole(-90, 90, 4, 5).astype(kind), "d": _SIGNED.astype(kind)},
            (4, 5),
            attributes=own,
        )
        for kind in (np.int64, np.int32)
        for operator, own in (("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1}))
    ),
    Case("Div", {"x": _whole(0, 90, 4, 5).astype("u1"), "d": np.arange(1, 6, dtype="u1")}, (4, 5)),
    Case("NegativeLogLikelihoodLoss", {"x": _TABLE, "i": _whole(0, 4, 8)}, (), {"i": (-4, 3)}),
    Case(
        "RotaryEmbedding",
        {"x": _floats(1, 1, 2, 4), "c": _floats(5, 2), "s": _floats(5, 2), "p": np.array([[1, 3]])},
        (1, 1, 2, 4),
        {"p": (0, 4)},
        opset=23,
    ),
    Case(
        "ArrayFeatureExtractor",
        {"x": _TABLE, "i": np.array([2, 3])},
        (8, 2),
        {"i": (0, 3)},
        domain="ai.onnx.ml",
    ),
    Case(
        "BitShift",
        {"x": np.array([255, 3], "u1"), "d": np.array([1, 7], "u1")},
        (2,),
        attributes={"direction": "LEFT"},
    ),
    Case("Trilu", {"x": _floats(4, 5), "k": np.array(-1)}, (4, 5)),
    Case(
        "OneHot",
        {"i": np.array([0, 2, -1]), "depth": np.array(3), "values": np.array([2, 5], np.float32)},
        (3, 3),
        stored=("depth",),
    ),
    *(
        Case(
            "GridSample",
            {"x": _floats(1, 2, 4, 5), "g": RANDOM.uniform(-1.3, 1.3, (1, 3, 3, 2)).astype("f4")},
            (1, 2, 3, 3),
            attributes={"mode": mode, "padding_mode": padding},
        )
        for mode, padding in (("linear", "zeros"), ("nearest", "border"), ("linear", "reflection"))
    ),
    Case(
        "GridSample",
        {"x": _floats(1, 2, 3, 4, 5), "g": RANDOM.uniform(-1.3, 1.3, (1, 2, 3, 3, 3)).astype("f4")},
        (1, 2, 2, 3, 3),
        attributes={"mode": "linear", "padding_mode": "border"},
    ),
)
"""One or more for each row of the table that computes something."""

HOSTILE: dict[str, list[float]] = {
    "i": [2**31, -(2**31) - 1, 2**32 + 1, 2**63 - 1, -(2**63), -(2**32), 10**7, -(10**7), 64, -64],
    "f": [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 2.0**31, -(2.0**31), 1e7, -0.5, 8.5],
}
"""Integers and floats that are nobody's index, by numpy's letters."""


def drawn(array: Array, random: np.random.Generator, ends: tuple[int, int] | None = None) -> Array:
    """Return an array in which half of the values are hostile, those just outside of `ends` among them."""
    kind = array.dtype
    values: list[Any] = [*HOSTILE["f" if kind.kind == "f" else "i"]]
    if kind.kind in "iu":
        low, high = ends or (-8, 7)
        limits = np.iinfo(kind)
        near = [low - 1, low - 2, high + 1, high + 2, 0, -1, 1, limits.min, limits.max]
        values = [each for each in (*values, *near) if limits.min <= each <= limits.max]
    chosen = random.choice(np.array(values, kind), array.shape)
    made: Array = np.where(random.random(array.shape) < 0.5, chosen, array).astype(kind)
    return made
