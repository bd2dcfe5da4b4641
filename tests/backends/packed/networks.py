"""One operator each: what becomes of it behind a convolution (on packed values) and by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import TensorProto, helper, shape_inference

from tests.models.graphs import graph_of, tensor_info

Node: TypeAlias = onnx.NodeProto


def op(kind: str, *inputs: str, to: str | Sequence[str] = "m", **attributes: Any) -> Node:
    """Return a node; its output is the network's, unless said otherwise."""
    return helper.make_node(kind, list(inputs), [to] if isinstance(to, str) else list(to), **attributes)


@dataclass(frozen=True)
class Case:
    """Nodes from `a`, which is the input or a convolution of it, to `outputs`."""

    name: str
    nodes: tuple[Node, ...]
    weights: dict[str, Any] = field(default_factory=dict)
    channels: int = 20
    size: tuple[int, ...] = (9, 11)
    batch: int = 1
    outputs: tuple[str, ...] = ("m",)
    opset: int = 17

    def model(self, *, packed: bool) -> onnx.ModelProto:
        """Return the network, with a convolution in front where `packed`."""
        rank = len(self.size)
        weights = {name: np.asarray(value) for name, value in self.weights.items()}
        inputs = 3 if packed else self.channels
        nodes = list(self.nodes)
        source = tensor_info("x" if packed else "a", (self.batch, inputs, *self.size))
        if packed:
            random = np.random.default_rng(3)
            weights["w0"] = (random.normal(size=(self.channels, 3, *[3] * rank)) / 3).astype("f4")
            nodes.insert(0, op("Conv", "x", "w0", to="a", pads=[1] * (2 * rank)))
        outputs = [tensor_info(name, None) for name in self.outputs]
        graph = graph_of(nodes, [source], [], weights, self.opset)
        for output in outputs:
            output.ClearField("type")
        graph.graph.output.extend(outputs)
        return shape_inference.infer_shapes(graph, strict_mode=True)


def _f(*values: float) -> np.ndarray:
    return np.asarray(values, "f4")


def _i(*values: int) -> np.ndarray:
    return np.asarray(values, "i8")


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def _reduction(kind: str, axes: Sequence[int], keep: int = 1, **more: Any) -> Case:
    name = f"{kind} {list(axes)}{'' if keep else ' dropped'}"
    if kind == "ReduceSum":
        return Case(name, (op(kind, "a", "axes", keepdims=keep),), {"axes": _i(*axes)}, **more)
    return Case(name, (op(kind, "a", axes=list(axes), keepdims=keep),), **more)


def _pool(kind: str, name: str, **attributes: Any) -> Case:
    more = {key: attributes.pop(key) for key in ("channels", "size", "batch") if key in attributes}
    return Case(f"{kind} {name}", (op(kind, "a", **attributes),), **more)


def _resize(name: str, scales: Sequence[float], **attributes: Any) -> Case:
    return Case(f"resize {name}", (op("Resize", "a", "", "s", **attributes),), {"s": _f(*scales)})


POOLS = (
    _pool("MaxPool", "3x3 s2", kernel_shape=[3, 3], strides=[2, 2]),
    _pool("MaxPool", "3x3 pads", kernel_shape=[3, 3], pads=[1, 1, 1, 1], batch=2),
    _pool("MaxPool", "ceil", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 0, 0, 1]),
    _pool("MaxPool", "dilated", kernel_shape=[2, 3], dilations=[2, 2], pads=[1, 2, 1, 2]),
    _pool("MaxPool", "few channels", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, channels=5),
    _pool("MaxPool", "whole blocks", kernel_shape=[3, 3], strides=[1, 2], pads=[1] * 4, channels=32),
    _pool("MaxPool", "of rows", kernel_shape=[3], strides=[2], pads=[1, 1], size=(13,)),
    _pool(
        "MaxPool", "of volumes", kernel_shape=[2, 3, 3], strides=[2, 2, 2], pads=[0, 1, 1] * 2, size=(4, 6, 7)
    ),
    _pool("AveragePool", "3x3", kernel_shape=[3, 3], strides=[2, 2]),
    _pool("AveragePool", "pads left out", kernel_shape=[3, 3], pads=[1] * 4),
    _pool("AveragePool", "pads counted", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1, batch=2),
    _pool(
        "AveragePool",
        "ceil",
        kernel_shape=[3, 3],
        strides=[2, 2],
        ceil_mode=1,
        pads=[0, 1, 1, 0],
        size=(8, 10),
    ),
    _pool("AveragePool", "of volumes", kernel_shape=[2, 2, 2], strides=[2, 2, 2], size=(4, 6, 6)),
    _pool("GlobalAveragePool", ""),
    _pool("GlobalMaxPool", "", channels=32, batch=2),
)

REDUCTIONS = (
    _reduction("ReduceMean", [2, 3]),
    _reduction("ReduceMean", [2, 3], 0, batch=2, channels=32),
    _reduction("ReduceMean", [1]),
    _reduction("ReduceMean", [3]),
    _reduction("ReduceMean", [2], 0),
    _reduction("ReduceMean", [0], 0, batch=3),
    _reduction("ReduceSum", [1, 3], 0),
    _reduction("ReduceSum", [0, 1, 2, 3], 0),
    _reduction("ReduceMax", [1, 2, 3]),
    _reduction("ReduceMax", [0, 1, 2, 3], 0),
    _reduction("ReduceMin", [2]),
    _reduction("ReduceProd", [3]),
    _reduction("ReduceL2", [1]),
    _reduction("ReduceSumSquare", [2, 3]),
    _reduction("ReduceLogSumExp", [1]),
    Case("argmax channels", (op("ArgMax", "a", axis=1, keepdims=0),)),
    Case("argmax last", (op("ArgMax", "a", axis=3),)),
    Case("argmin rows", (op("ArgMin", "a", axis=2),), channels=32),
    Case("argmax of all", (op("Flatten", "a", to="f"), op("ArgMax", "f", axis=1)), channels=64),
    Case(
        "variance",
        (
            op("ReduceMean", "a", to="u", axes=[1]),
            op("Sub", "a", "u", to="d"),
            op("Mul", "d", "d", to="q"),
            op("ReduceMean", "q", axes=[1]),
        ),
    ),
)

NORMS = (
    Case("softmax channels", (op("Softmax", "a", axis=1),)),
    Case("softmax last", (op("Softmax", "a", axis=3),)),
    Case("softmax of rows", (op("Softmax", "a", axis=3),), size=(9, 53)),
    Case("log softmax of rows", (op("LogSoftmax", "a", axis=3),), size=(4, 75)),
    Case(
        "layer norm of rows",
        (op("LayerNormalization", "a", "k", "b", axis=-1),),
        {"k": _random(70), "b": _random(70)},
        size=(9, 70),
    ),
    Case(
        "instance norm of rows",
        (op("InstanceNormalization", "a", "k", "b"),),
        {"k": _random(20), "b": _random(20)},
        size=(3, 37),
    ),
    Case("log softmax", (op("LogSoftmax", "a", axis=1),), channels=32),
    Case(
        "softmax of 1000",
        (op("GlobalMaxPool", "a", to="g"), op("Flatten", "g", to="f"), op("Softmax", "f", axis=1)),
        channels=1000,
        size=(2, 2),
    ),
    Case(
        "layer norm",
        (op("LayerNormalization", "a", "k", "b", axis=-1),),
        {"k": _random(11), "b": _random(11)},
    ),
    Case("layer norm over three", (op("LayerNormalization", "a", "k", axis=1),), {"k": _random(20, 9, 11)}),
    Case(
        "instance norm", (op("InstanceNormalization", "a", "k", "b"),), {"k": _random(20), "b": _random(20)}
    ),
    Case(
        "group norm",
        (
            op("Reshape", "a", "to", to="r"),
            op("InstanceNormalization", "r", "k", "b", to="i"),
            op("Reshape", "i", "back"),
        ),
        {"k": _f(1, 1, 1, 1), "b": _f(0, 0, 0, 0), "to": _i(1, 4, -1), "back": _i(1, 20, 9, 11)},
    ),
    Case(
        "norm of each channel, with reshapes to the same shape",
        (
            op("Reshape", "a", "to", to="r"),
            op("InstanceNormalization", "r", "k", "b", to="i"),
            op("Reshape", "i", "to", to="j"),
            op("Relu", "j"),
        ),
        {"k": _random(20), "b": _random(20), "to": _i(1, 20, -1)},
        size=(37,),
    ),
    Case("local response", (op("LRN", "a", size=5, alpha=0.1),)),
    Case("l2 norm", (op("ReduceL2", "a", axes=[1], to="n"), op("Div", "a", "n"))),
    Case(
        "batch norm",
        (op("Relu", "a", to="r"), op("BatchNormalization", "r", "k", "b", "u", "v")),
        {"k": _random(20), "b": _random(20), "u": _random(20), "v": _random(20) ** 2 + 1},
    ),
)

ELEMENTWISE = (
    Case("hard swish", (op("HardSwish", "a"),)),
    Case(
        "gelu",
        (
            op("Div", "a", "r", to="d"),
            op("Erf", "d", to="e"),
            op("Add", "e", "o", to="p"),
            op("Mul", "a", "p"),
        ),
        {"r": _f(2**0.5), "o": _f(1)},
    ),
    Case(
        "clip and power",
        (op("Clip", "a", "l", "h", to="c"), op("Pow", "c", "e")),
        {"l": np.float32(0.1), "h": np.float32(2), "e": np.float32(1.5)},
    ),
    Case(
        "where",
        (op("Greater", "a", "z", to="g"), op("Exp", "a", to="e"), op("Where", "g", "e", "a")),
        {"z": _f(0)},
    ),
    Case(
        "per channel",
        (op("Mul", "a", "k", to="p"), op("Add", "p", "b", to="q"), op("PRelu", "q", "s")),
        {"k": _random(20, 1, 1), "b": _random(1, 20, 1, 1), "s": _random(20, 1, 1)},
    ),
    Case(
        "per row and column",
        (op("Add", "a", "r", to="p"), op("Mul", "p", "c")),
        {"r": _random(9, 1), "c": _random(11)},
    ),
    Case(
        "squeeze and excite",
        (op("GlobalAveragePool", "a", to="g"), op("Sigmoid", "g", to="s"), op("Mul", "a", "s")),
        batch=2,
    ),
    Case(
        "sigmoid is not zero at zero",
        (op("Sigmoid", "a", to="s"), op("Conv", "s", "w")),
        {"w": _random(7, 20, 1, 1)},
    ),
    Case(
        "trigonometry",
        (
            op("Sin", "a", to="s"),
            op("Tanh", "s", to="t"),
            op("Abs", "t", to="u"),
            op("Sqrt", "u", to="v"),
            op("Floor", "v", to="w"),
            op("Sub", "v", "w"),
        ),
    ),
    Case("gather", (op("Gather", "t", "i"),), {"t": _random(7, 5), "i": _i(3, 0, 6)}),
    Case(
        "masks",
        (
            op("Less", "a", "z", to="l"),
            op("Not", "l", to="n"),
            helper.make_node("Cast", ["n"], ["m"], to=TensorProto.FLOAT),
        ),
        {"z": _f(0)},
    ),
)

MOVES = (
    Case(
        "concat whole blocks",
        (op("Conv", "a", "w", to="b"), op("Relu", "a", to="c"), op("Concat", "b", "c", axis=1)),
        {"w": _random(16, 32, 1, 1)},
        channels=32,
    ),
    Case(
        "concat before a convolution",
        (
            op("Conv", "a", "w", to="b"),
            op("MaxPool", "b", to="c", kernel_shape=[3, 3], pads=[1] * 4),
            op("Conv", "a", "w7", to="d"),
            op("Concat", "c", "b", "d", axis=1, to="e"),
            op("Conv", "e", "v", pads=[1] * 4),
        ),
        {"w": _random(16, 32, 1, 1), "w7": _random(7, 32, 1, 1), "v": _random(9, 39, 3, 3)},
        channels=32,
        batch=2,
    ),
    Case(
        "concat of concats",
        (
            op("Conv", "a", "w", to="b"),
            op("Concat", "a", "b", axis=1, to="c"),
            op("Conv", "c", "v", to="d"),
            op("Concat", "c", "d", axis=1, to="e"),
            op("MaxPool", "e", kernel_shape=[2, 2]),
        ),
        {"w": _random(16, 32, 1, 1), "v": _random(16, 48, 1, 1)},
        channels=32,
    ),
    Case(
        "concat twice the same",
        (op("Conv", "a", "w", to="b"), op("Conv", "a", "w", to="c"), op("Concat", "b", "c", "b", axis=1)),
        {"w": _random(16, 32, 1, 1)},
        channels=32,
    ),
    Case("concat an input", (op("Sigmoid", "a", to="b"), op("Concat", "b", "a", axis=1)), channels=32),
    Case(
        "concat parts of blocks",
        (op("Conv", "a", "w", to="b"), op("Concat", "b", "a", "b", axis=1)),
        {"w": _random(7, 20, 1, 1)},
    ),
    Case(
        "concat one shuffled",
        (
            op("Reshape", "a", "s1", to="q"),
            op("Transpose", "q", to="t", perm=[0, 2, 1, 3, 4]),
            op("Reshape", "t", "s2", to="r"),
            op("Concat", "r", "a", to="c", axis=1),
            op("Conv", "c", "w"),
        ),
        {"s1": _i(1, 4, 8, 9, 11), "s2": _i(1, 32, 9, 11), "w": _random(20, 64, 1, 1)},
        channels=32,
    ),
    Case("concat rows", (op("Relu", "a", to="b"), op("Concat", "a", "b", axis=2)), batch=2),
    Case(
        "concat columns",
        (op("Relu", "a", to="b"), op("Concat", "a", "b", axis=3)),
    ),
    Case(
        "split",
        (op("Split", "a", "n", to=["b", "c", "d"], axis=1), op("Relu", "c", to="e")),
        {"n": _i(4, 9, 7)},
        outputs=("b", "e", "d"),
    ),
    Case(
        "split twice, each time with another part unused",
        (
            op("Split", "a", "n", to=["b", "c", "d"], axis=1),
            op("Conv", "a", "w", to="r"),
            op("Split", "r", "n", to=["e", "f", "g"], axis=1),
        ),
        {"n": _i(4, 9, 7), "w": _random(20, 20, 1, 1)},
        outputs=("b", "c", "f", "g"),
    ),
    Case(
        "slice channels",
        (op("Slice", "a", "s", "e", "x1", "st"),),
        {"s": _i(3), "e": _i(18), "x1": _i(1), "st": _i(1)},
    ),
    Case(
        "slice with steps",
        (op("Slice", "a", "s", "e", "x1", "st"),),
        {"s": _i(1, 10), "e": _i(9, -12), "x1": _i(2, 3), "st": _i(2, -2)},
    ),
    Case("pad", (op("Pad", "a", "p", "v"),), {"p": _i(0, 1, 2, 0, 0, 2, 1, 3), "v": np.float32(0.5)}),
    Case("pad by reflection", (op("Pad", "a", "p", mode="reflect"),), {"p": _i(0, 0, 2, 1, 0, 0, 1, 3)}),
    _resize(
        "nearest",
        [1, 1, 2, 2],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    _resize("linear", [1, 1, 2, 2], mode="linear"),
    _resize("linear down", [1, 1, 0.5, 0.6], mode="linear", coordinate_transformation_mode="align_corners"),
    Case("depth to space", (op("DepthToSpace", "a", blocksize=2),), channels=32),
    Case("space to depth", (op("SpaceToDepth", "a", blocksize=2),), size=(8, 10)),
    Case(
        "channel shuffle",
        (
            op("Reshape", "a", "s1", to="q"),
            op("Transpose", "q", to="r", perm=[0, 2, 1, 3, 4]),
            op("Reshape", "r", "s2"),
        ),
        {"s1": _i(1, 4, 8, 9, 11), "s2": _i(1, 32, 9, 11)},
        channels=32,
    ),
    Case("transpose", (op("Transpose", "a", perm=[0, 2, 3, 1]),)),
    Case("transpose rows", (op("Transpose", "a", perm=[0, 2, 1]),), size=(37,), channels=21),
    Case(
        "add what is transposed",
        (op("Transpose", "a", to="t", perm=[0, 3, 2, 1]), op("Mul", "t", "k", to="u"), op("Exp", "u")),
        {"k": _random(1, 11, 9, 1)},
    ),
    Case(
        "transpose back",
        (
            op("Transpose", "a", to="t", perm=[0, 3, 2, 1]),
            op("Relu", "t", to="r"),
            op("Transpose", "r", perm=[0, 3, 1, 2]),
        ),
    ),
    Case("expand and tile", (op("Tile", "a", "r"),), {"r": _i(1, 2, 1, 3)}),
    Case("gather channels", (op("Gather", "a", "i", axis=1),), {"i": _i(5, 0, 19, 5)}),
    Case(
        "several outputs",
        (op("Relu", "a", to="b"), op("Exp", "a", to="c"), op("Add", "b", "c", to="d")),
        outputs=("b", "c", "d"),
    ),
    Case(
        "top 5",
        (op("Flatten", "a", to="f"), op("TopK", "f", "k", to=["v", "i"])),
        {"k": _i(5)},
        outputs=("v", "i"),
    ),
    Case(
        "scatter to places counted from the end",
        (op("ScatterElements", "a", "at", "u", axis=1),),
        {"u": _random(1, 2, 9, 11), "at": np.repeat(_i(-3, -20), 99).reshape(1, 2, 9, 11)},
        opset=18,
    ),
    Case(
        "update of a cache",
        (op("TensorScatter", "a", "u", "at"),),
        {"u": _random(1, 20, 1, 11), "at": _i(5)},
        opset=24,
    ),
    Case("cumulative sum", (op("CumSum", "a", "ax"),), {"ax": np.int64(1)}),
    Case(
        "table of what was found",
        (op("ArgMax", "a", to="q", axis=1, keepdims=0), op("Gather", "v", "q")),
        {"v": _random(20, 6)},
    ),
    Case("flatten", (op("Flatten", "a", to="f"), op("Relu", "f"))),
)

CASES = (*POOLS, *REDUCTIONS, *NORMS, *ELEMENTWISE, *MOVES)
