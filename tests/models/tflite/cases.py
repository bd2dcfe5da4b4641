"""A file for each operator, in floats and in the integers that TensorFlow Lite has it in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.models.tflite.writer import Writer

IMAGE = (1, 6, 5, 4)
_R = np.random.default_rng(7)
FLOAT, INT8, UINT8 = "float32", "int8", "uint8"


@dataclass(frozen=True)
class Case:
    """One operator.

    Attributes
    ----------
    inputs
        A shape for each input of the network, an array for a constant, None for one that is left out.
        A float array is quantised with the network.
    outputs
        Shapes.
    out
        Scale and zero point of quantised outputs; None: those of the inputs.
    results, given
        Type of the outputs, of the inputs, if it is not that of the form.
    usual
        Why the judge's usual kernels are asked: what the reference kernels lack.
    """

    name: str
    inputs: Sequence[Any]
    outputs: Sequence[Sequence[int]]
    table: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    forms: Sequence[str] = (FLOAT, INT8, UINT8)
    out: tuple[float, int] | None = (0.04, -3)
    results: str | None = None
    given: str | None = None
    low: float = -2.0
    high: float = 2.0
    steps: int = 1
    usual: str = ""

    def write(self, form: str) -> Writer:
        """Return the file in a form."""
        writer, places = Writer(), []
        one = {} if form == FLOAT else {"scale": 0.02, "zero": 5 + 128 * (form == UINT8)}
        for each in self.inputs:
            if each is None:
                places.append(-1)
            elif isinstance(each, np.ndarray):
                places.append(self._constant(writer, each, form))
            else:
                dtype = self.given or form
                places.append(writer.add(each, dtype, **({} if self.given else one)))
                writer.inputs.append(places[-1])
        after = one
        if form != FLOAT and self.out is not None:
            after = {"scale": self.out[0], "zero": self.out[1] + 128 * (form == UINT8)}
        for shape in self.outputs:
            writer.outputs.append(writer.add(shape, self.results or form, **({} if self.results else after)))
        writer.call(self.name, places, writer.outputs, self.table, **self.options)
        return writer

    def _constant(self, writer: Writer, array: np.ndarray, form: str) -> int:
        if array.dtype != np.float32 or form == FLOAT:
            return writer.constant(array)
        zero = 128 * (form == UINT8)
        return writer.constant((np.rint(array / 0.02) + zero).astype(form), scale=0.02, zero=zero)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int32")


def floats(*shape: int) -> np.ndarray:
    return _R.uniform(-1, 1, shape).astype("float32")


def _window(width: int, height: int, stride: int, padding: int) -> dict[str, int]:
    return {
        "FilterWidth": width, "FilterHeight": height, "StrideW": stride, "StrideH": stride, "Padding": padding
    }  # fmt: skip


SINGLE: list[Case] = [
    *(
        Case(name, [IMAGE], [IMAGE], forms=forms, low=low, high=high, out=out, steps=steps,
             usual="it is not there" if name in ("CEIL", "ELU", "ROUND") else "")
        for name, forms, low, high, out, steps in [
            ("ABS", (FLOAT, INT8), -2, 2, (0.02, 0), 1),
            ("CEIL", (FLOAT,), -2, 2, None, 1),
            ("COS", (FLOAT,), -2, 2, None, 1),
            ("ELU", (FLOAT, INT8), -2, 2, (0.03, 0), 1),
            ("EXP", (FLOAT, INT8), -2, 2, (0.1, -128), 1),
            ("FLOOR", (FLOAT,), -2, 2, None, 1),
            ("HARD_SWISH", (FLOAT, INT8, UINT8), -4, 4, (0.02, -20), 1),
            ("LOG", (FLOAT, ), 0.1, 2, None, 1),
            ("NEG", (FLOAT,), -2, 2, None, 1),
            ("RELU", (FLOAT, INT8, UINT8), -2, 2, (0.02, -128), 1),
            ("RELU6", (FLOAT, INT8, UINT8), -8, 8, (0.03, -100), 1),
            ("RELU_N1_TO_1", (FLOAT, INT8, UINT8), -2, 2, (0.03, 3), 1),
            ("RELU_0_TO_1", (FLOAT, INT8), -2, 2, (0.01, -128), 1),
            ("ROUND", (FLOAT,), -2, 2, None, 1),
            ("RSQRT", (FLOAT,), 0.1, 2, None, 1),
            ("SIN", (FLOAT,), -2, 2, None, 1),
            ("SQRT", (FLOAT,), 0.1, 2, None, 1),
            ("SQUARE", (FLOAT,), -2, 2, None, 1),
            ("LOGISTIC", (FLOAT, INT8, UINT8), -4, 4, (1 / 256, -128), 1),
            ("TANH", (FLOAT, INT8, UINT8), -4, 4, (1 / 128, 0), 1),
        ]
    ),
    Case("GELU", [IMAGE], [IMAGE], "GeluOptions", {"Approximate": False}, (FLOAT, INT8), out=(0.02, -100)),
    Case("GELU", [IMAGE], [IMAGE], "GeluOptions", {"Approximate": True}, (FLOAT, INT8), out=(0.02, -100)),
    Case("LEAKY_RELU", [IMAGE], [IMAGE], "LeakyReluOptions", {"Alpha": 0.2}),
    Case("PRELU", [IMAGE, floats(1, 1, 4)], [IMAGE]),
    Case("LOGICAL_NOT", [(2, 3)], [(2, 3)], forms=(FLOAT,), given="bool", results="bool"),
    Case("CAST", [IMAGE], [IMAGE], "CastOptions", {"InDataType": 0, "OutDataType": 2}, (FLOAT,),
         results="int32", low=-9, high=9),
    Case("CAST", [(3, 4)], [(3, 4)], "CastOptions", {"InDataType": 2, "OutDataType": 0}, (FLOAT,),
         given="int32"),
    Case("DEQUANTIZE", [IMAGE], [IMAGE], forms=(INT8, UINT8), results=FLOAT),
    Case("QUANTIZE", [IMAGE], [IMAGE], forms=(INT8, UINT8), given=FLOAT),
    Case("QUANTIZE", [IMAGE], [IMAGE], forms=(INT8, UINT8)),
]  # fmt: skip

PAIRS: list[Case] = [
    *(
        Case(
            name,
            [one, other],
            [(1, 6, 5, 4)],
            table,
            {"FusedActivationFunction": fused},
            forms,
            out=(0.03, -5),
        )
        for name, table, forms in [
            ("ADD", "AddOptions", (FLOAT, INT8, UINT8)),
            ("SUB", "SubOptions", (FLOAT, INT8, UINT8)),
            ("MUL", "MulOptions", (FLOAT, INT8, UINT8)),
        ]
        for fused in (0, 1, 3)
        for one, other in [(IMAGE, IMAGE), (IMAGE, (1, 1, 1, 4)), (IMAGE, floats(4)), (IMAGE, floats(1))]
    ),
    Case("DIV", [IMAGE, floats(4) + 3], [IMAGE], "DivOptions", forms=(FLOAT,)),
    Case("POW", [IMAGE, np.array([2.0], "float32")], [IMAGE], forms=(FLOAT,), low=0.1),
    Case("MAXIMUM", [IMAGE, IMAGE], [IMAGE], out=None),
    Case("MINIMUM", [IMAGE, IMAGE], [IMAGE], out=None),
    Case("SQUARED_DIFFERENCE", [IMAGE, IMAGE], [IMAGE], forms=(FLOAT, INT8), out=(0.1, -128)),
    Case("ADD_N", [IMAGE, IMAGE, IMAGE], [IMAGE], forms=(FLOAT,)),
    Case("ADD_N", [IMAGE, IMAGE, IMAGE], [IMAGE], forms=(FLOAT,), given="int32", results="int32", steps=0),
    *(
        Case(name, [(2, 3, 4), (2, 3, 4)], [(2, 3, 4)], forms=(FLOAT,), results="bool")
        for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    ),
    *(
        Case(name, [(2, 3), (2, 3)], [(2, 3)], forms=(FLOAT,), given="bool", results="bool")
        for name in ("LOGICAL_AND", "LOGICAL_OR")
    ),
    Case(
        "SELECT_V2",
        [np.array([True, False, True, False]), IMAGE, IMAGE],
        [IMAGE],
        forms=(FLOAT, INT8),
        out=None,
    ),
    Case(
        "SELECT", [np.array([[True, False, True]]), (1, 3), (1, 3)], [(1, 3)], forms=(FLOAT, INT8), out=None
    ),
]

REDUCED: list[Case] = [
    *(
        Case(
            name,
            [IMAGE, axes],
            [shape],
            "ReducerOptions",
            {"KeepDims": keep},
            forms,
            out=out,
            usual="its sums of int8 are far from the sums" if name == "SUM" else "",
        )
        for name, forms, out in [
            ("MEAN", (FLOAT, INT8, UINT8), (0.01, 3)),
            ("SUM", (FLOAT, INT8, UINT8), (0.2, 1)),
            ("REDUCE_MAX", (FLOAT, INT8, UINT8), None),
            ("REDUCE_MIN", (FLOAT, INT8, UINT8), None),
            ("REDUCE_PROD", (FLOAT,), None),
        ]
        for axes, shape, keep in [
            (ints(1, 2), (1, 4), False),
            (ints(1, 2), (1, 1, 1, 4), True),
            (ints(2, 3), (1, 6), False),
            (ints(3), (1, 6, 5), False),
            (ints(-1), (1, 6, 5, 1), True),
        ]
    ),
    Case("ARG_MAX", [IMAGE, ints(3)], [(1, 6, 5)], "ArgMaxOptions", {"OutputType": 2}, results="int32"),
    Case("ARG_MIN", [IMAGE, ints(1)], [(1, 5, 4)], "ArgMinOptions", {"OutputType": 4}, results="int64"),
    Case("SOFTMAX", [(3, 10)], [(3, 10)], "SoftmaxOptions", {"Beta": 1.0}, out=(1 / 256, -128)),
    Case("SOFTMAX", [IMAGE], [IMAGE], "SoftmaxOptions", {"Beta": 0.5}, out=(1 / 256, -128)),
    Case("LOG_SOFTMAX", [(3, 10)], [(3, 10)], forms=(FLOAT, INT8), out=(16 / 256, 127)),
    Case("L2_NORMALIZATION", [(3, 10)], [(3, 10)], "L2NormOptions", {}, (FLOAT, INT8), out=(1 / 128, 0)),
]

WINDOWS: list[Case] = [
    *(
        Case(name, [(1, 9, 8, 3)], [(1, *extents, 3)], "Pool2DOptions", _window(3, 2, stride, padding),
             out=None)
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        for stride, padding, extents in [(1, 0, (9, 8)), (2, 0, (5, 4)), (2, 1, (4, 3))]
    ),
    *(
        Case(name, [(1, 4, 6, 8)], [shape], table, {"BlockSize": 2}, out=None)
        for name, table, shape in [
            ("SPACE_TO_DEPTH", "SpaceToDepthOptions", (1, 2, 3, 32)),
            ("DEPTH_TO_SPACE", "DepthToSpaceOptions", (1, 8, 12, 2)),
        ]
    ),
    *(
        Case(name, [(1, 4, 5, 3), ints(*size)], [(1, *size, 3)], f"{table}Options",
             {"AlignCorners": corners, "HalfPixelCenters": centres}, forms=(FLOAT, INT8), out=None)
        for name, table in [
            ("RESIZE_BILINEAR", "ResizeBilinear"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor")
        ]
        for size in [(8, 10), (7, 3), (9, 13)]
        for corners, centres in [(False, False), (True, False), (False, True)]
    ),
    *(  # rows that lie at the end of others, here and there, and one row
        Case("RESIZE_NEAREST_NEIGHBOR", [(1, *old, 3), ints(*new)], [(1, *new, 3)],
             "ResizeNearestNeighborOptions", {"AlignCorners": corners, "HalfPixelCenters": centres},
             forms=(FLOAT, INT8), out=None)
        for old, new, corners, centres in [
            ((6, 14), (74, 32), False, False), ((14, 20), (2, 12), False, False),
            ((4, 14), (75, 23), True, False), ((2, 6), (41, 79), False, True), ((6, 5), (1, 10), False, True),
        ]
    ),
    Case("RESIZE_BILINEAR", [(1, 4, 5, 3), ints(1, 9)], [(1, 1, 9, 3)], "ResizeBilinearOptions",
         {"AlignCorners": True, "HalfPixelCenters": False}, forms=(FLOAT, INT8), out=None),
]  # fmt: skip

MOVED: list[Case] = [
    Case("RESHAPE", [IMAGE, ints(1, -1)], [(1, 120)], "ReshapeOptions", {"NewShape": [1, -1]}, out=None),
    Case("RESHAPE", [IMAGE], [(2, 60)], "ReshapeOptions", {"NewShape": [2, 60]}, out=None),
    Case("SQUEEZE", [(1, 1, 1, 6)], [(1, 6)], "SqueezeOptions", {"SqueezeDims": [1, 2]}, out=None),
    Case("EXPAND_DIMS", [(3, 4), ints(1)], [(3, 1, 4)], out=None),
    *(
        Case("TRANSPOSE", [IMAGE, ints(*order)], [[IMAGE[axis] for axis in order]], out=None)
        for order in [(0, 3, 1, 2), (0, 2, 3, 1), (0, 2, 1, 3), (3, 2, 1, 0)]
    ),
    Case("TRANSPOSE", [(3, 4, 5), ints(2, 0, 1)], [(5, 3, 4)], out=None),
    *(
        Case("CONCATENATION", [IMAGE, IMAGE], [shape], "ConcatenationOptions", {"Axis": axis}, out=None)
        for axis, shape in [(3, (1, 6, 5, 8)), (-1, (1, 6, 5, 8)), (1, (1, 12, 5, 4))]
    ),
    Case("CONCATENATION", [IMAGE, IMAGE], [(1, 6, 5, 8)], "ConcatenationOptions", {"Axis": 3}, (UINT8,)),
    Case("PAD", [IMAGE, np.array([[0, 0], [1, 2], [0, 1], [0, 0]], "int32")], [(1, 9, 6, 4)], out=None),
    Case("PAD", [(3, 4), np.array([[0, 1], [2, 0]], "int32")], [(4, 6)], out=None),
    Case("PADV2", [IMAGE, np.array([[0, 0], [1, 2], [0, 1], [0, 3]], "int32"), np.array([0.3], "float32")],
         [(1, 9, 6, 7)], forms=(FLOAT,)),
    *(
        Case("PADV2", [(3, 4), np.array([[1, 2], [0, 1]], "int32"), np.array([-7], dtype)], [(6, 5)],
             forms=(FLOAT,), given=dtype, results=dtype, steps=0)
        for dtype in ("int32", "int64")
    ),
    Case("MIRROR_PAD", [IMAGE, np.array([[0, 0], [1, 2], [0, 1], [0, 0]], "int32")], [(1, 9, 6, 4)],
         "MirrorPadOptions", {"Mode": 0}, (FLOAT, INT8), out=None),
    Case("SLICE", [IMAGE, ints(0, 1, 2, 0), ints(1, 3, -1, 2)], [(1, 3, 3, 2)], out=None),
    *(
        Case("STRIDED_SLICE", [IMAGE, *map(lambda each: ints(*each), (first, last, steps))], [shape],
             "StridedSliceOptions", masks, (FLOAT, INT8), out=None)
        for first, last, steps, shape, masks in [
            ((0, 1, 0, 0), (1, 5, 5, 4), (1, 2, 1, 3), (1, 2, 5, 2), {}),
            ((0, 1, 0, 0), (0, 5, 0, 0), (1, 1, 1, 1), (1, 4, 5, 4), {"BeginMask": 13, "EndMask": 13}),
            ((0, -1, 0, 1), (0, 0, 0, 3), (1, -2, 1, 1), (1, 3, 5, 2), {"BeginMask": 5, "EndMask": 7}),
            ((0, 2, 0, -1), (1, 3, 5, 0), (1, 1, 1, 1), (1, 5), {"ShrinkAxisMask": 10}),
            ((0, 2, 3, 0), (1, 3, 4, 4), (1, 1, 1, 1), (1, 4), {"ShrinkAxisMask": 6, "BeginMask": 6}),
        ]
    ),
    Case("SPLIT", [ints(3), IMAGE], [(1, 6, 5, 2)] * 2, "SplitOptions", {"NumSplits": 2}, out=None),
    Case("SPLIT_V", [IMAGE, ints(1, 3), ints(3)], [(1, 6, 5, 1), (1, 6, 5, 3)], "SplitVOptions",
         {"NumSplits": 2}, (FLOAT, INT8), out=None),
    Case("PACK", [(3, 4), (3, 4)], [(3, 2, 4)], "PackOptions", {"ValuesCount": 2, "Axis": 1}, out=None),
    Case("UNPACK", [(3, 2, 4)], [(3, 4)] * 2, "UnpackOptions", {"Num": 2, "Axis": 1}, out=None),
    Case("GATHER", [(7, 4), ints(3, 0, 6)], [(3, 4)], "GatherOptions", {"Axis": 0}, out=None),
    Case("EMBEDDING_LOOKUP", [ints(3, 0, 6), (7, 4)], [(3, 4)], forms=(FLOAT,)),
    Case("TILE", [(2, 3), ints(2, 1)], [(4, 3)], forms=(FLOAT, INT8), out=None),
    Case("BROADCAST_TO", [(1, 3), ints(4, 3)], [(4, 3)], forms=(FLOAT, INT8), out=None,
         usual="it is not there"),
]  # fmt: skip

INDEXED: list[Case] = [
    Case("REVERSE_V2", [IMAGE, ints(2)], [IMAGE], forms=(FLOAT, INT8), out=None),
    Case("REVERSE_V2", [(3, 4), ints(0)], [(3, 4)], forms=(FLOAT,), given="int32", results="int32", steps=0),
    Case("REVERSE_SEQUENCE", [(3, 5, 2), ints(2, 5, 1)], [(3, 5, 2)], "ReverseSequenceOptions",
         {"SeqDim": 1, "BatchDim": 0}, (FLOAT,)),
    Case("GATHER_ND", [(3, 4, 2), np.array([[0, 1], [2, 3]], "int32")], [(2, 2)], forms=(FLOAT, INT8),
         out=None),
    Case("SCATTER_ND", [np.array([[1], [3], [1]], "int32"), (3, 2), ints(5, 2)], [(5, 2)], forms=(FLOAT,)),
    Case("ONE_HOT", [(2, 3), ints(4), np.array(2.0, "float32"), np.array(-1.0, "float32")], [(2, 3, 4)],
         "OneHotOptions", {"Axis": -1}, (FLOAT,), given="int32", results=FLOAT),
    Case("CUMSUM", [(3, 5), ints(1)], [(3, 5)], "CumsumOptions", {"Exclusive": True, "Reverse": True},
         (FLOAT,)),
    Case("CUMSUM", [(3, 5), ints(-2)], [(3, 5)], "CumsumOptions", {"Exclusive": False, "Reverse": False},
         (FLOAT,)),
    Case("SEGMENT_SUM", [(5, 3), ints(0, 0, 1, 2, 2)], [(3, 3)], forms=(FLOAT,), usual="it is not there"),
    *(
        Case(f"UNSORTED_SEGMENT_{kind}", [(5, 3), ints(2, 0, 2, 0, 1), np.array(3, "int32")], [(3, 3)],
             forms=(FLOAT,))
        for kind in ("SUM", "MAX", "MIN", "PROD")
    ),
    *(
        Case(f"REDUCE_{kind}", [(3, 4, 2), ints(1)], [shape], "ReducerOptions", {"KeepDims": keep}, (FLOAT,),
             given="bool", results="bool")
        for kind in ("ANY", "ALL")
        for keep, shape in [(True, (3, 1, 2)), (False, (3, 2))]
    ),
    Case("SPACE_TO_BATCH_ND", [(1, 5, 6, 3), ints(2, 3), np.array([[0, 1], [2, 1]], "int32")], [(6, 3, 3, 3)],
         forms=(FLOAT, INT8), out=None),
    Case("BATCH_TO_SPACE_ND", [(6, 3, 3, 3), ints(2, 3), np.array([[0, 1], [2, 1]], "int32")], [(1, 5, 6, 3)],
         forms=(FLOAT, INT8), out=None),
    Case("FILL", [ints(2, 3), ()], [(2, 3)], forms=(FLOAT,)),
    Case("ZEROS_LIKE", [(2, 3)], [(2, 3)], forms=(FLOAT,)),
    Case("SIGN", [(2, 30)], [(2, 30)], forms=(FLOAT,)),
    Case("ATAN2", [(2, 30), (2, 30)], [(2, 30)], forms=(FLOAT,)),
    Case("FLOOR_DIV", [(2, 30), np.float32([[1.5], [-0.7]])], [(2, 30)], forms=(FLOAT,)),
    *(
        Case(name, [(2, 30), ints(by)], [(2, 30)], forms=(FLOAT,), given="int32", results="int32", steps=0)
        for name, by in [("FLOOR_DIV", 7), ("FLOOR_DIV", -7), ("FLOOR_MOD", -7)]
    ),
    Case("FLOOR_MOD", [(2, 30), np.float32([[1.5], [-0.7]])], [(2, 30)], forms=(FLOAT,)),
]  # fmt: skip

CASES = [*SINGLE, *PAIRS, *REDUCED, *WINDOWS, *MOVED, *INDEXED]
