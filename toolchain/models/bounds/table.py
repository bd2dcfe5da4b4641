"""The table of operators whose input values decide an address, an extent or a division.

We refuse the values that onnxruntime refuses. In addition, no value can make generated code access memory
outside a buffer (`lowering/graph/confined.py`).
"""

from __future__ import annotations

import onnx

from toolchain.models.bounds.row import (
    BoundsRow,
    Checked,
    Divisor,
    along,
    coordinates,
    lengths,
    rows_of,
    shape_of,
)
from toolchain.models.rewrites.graph import Graph
from toolchain.models.walk import attributes_of

FARTHEST = 2**31
"""Largest side of a region in pixels of the network's input: far larger than every image."""

MICROSOFT = "com.microsoft."


def _free_places(node: onnx.NodeProto, graph: Graph) -> list[int]:
    """Return one more than the last step at which TensorScatter's update fits; circular caches have none."""
    own = attributes_of(node)
    axis = own.get("axis", -2)
    cache, update = (shape_of(name, graph)[axis] for name in node.input[:2])
    return [2**63 - 1 if own.get("mode", b"linear") == b"circular" else cache - update + 1]


def _images(node: onnx.NodeProto, graph: Graph) -> list[int]:
    """Return the bounds of MaxRoiPool's columns: the image index, and four coordinates that are clamped."""
    return [shape_of(node.input[0], graph)[0], 0, 0, 0, 0]


_PICKED = BoundsRow((Checked(1, "indices", along(0), "from the end"),))
_COORDINATES = BoundsRow((Checked(1, "indices", coordinates, "from the end"),))
_STEPS = BoundsRow((Checked(4, "lengths", lengths()),))
_DIVIDED = BoundsRow(
    (Divisor(),), otherwise="the least integer divided by -1 is itself, with rest 0; floats follow IEEE 754"
)

BOUNDS: dict[str, BoundsRow] = {
    "BitShift": BoundsRow(otherwise="a count beyond the type's bits shifts all of them out"),
    "Col2Im": BoundsRow(fixed=(1, 2)),
    "Compress": BoundsRow(fixed=(1,)),
    "ConstantOfShape": BoundsRow(fixed=(0,)),
    "CumProd": BoundsRow(fixed=(1,)),
    "CumSum": BoundsRow(fixed=(1,)),
    "Div": _DIVIDED,
    f"{MICROSOFT}EmbedLayerNormalization": BoundsRow(
        (
            Checked(0, "indices", rows_of(2)),
            Checked(1, "indices", rows_of(4)),
            Checked(8, "indices", rows_of(3)),
        )
    ),
    f"{MICROSOFT}DynamicQuantizeLSTM": _STEPS,
    "Expand": BoundsRow(fixed=(1,)),
    "Gather": _PICKED,
    "GatherElements": _PICKED,
    "GatherND": _COORDINATES,
    "GridSample": BoundsRow(
        otherwise="samples beyond the image are what padding_mode says; coordinates are cut at 2^20 halves "
        "of the image, and a NaN coordinate gives NaN, 0 or a pixel of the image"
    ),
    "GRU": _STEPS,
    "LSTM": _STEPS,
    "MaxRoiPool": BoundsRow(
        (Checked(1, "images", _images, kinds="f"),),
        otherwise="regions are cut four images' widths beyond the image",
    ),
    "Mod": _DIVIDED,
    "OneHot": BoundsRow(fixed=(1,), otherwise="an index outside the depth gives off values alone"),
    "Pad": BoundsRow(fixed=(1, 3)),
    "Range": BoundsRow(fixed=(0, 1, 2)),
    "Reshape": BoundsRow(fixed=(1,)),
    "Resize": BoundsRow(fixed=(1, 2, 3)),
    "ReverseSequence": BoundsRow((Checked(1, "lengths", lengths("time_axis")),)),
    "RNN": _STEPS,
    "RoiAlign": BoundsRow(
        (
            Checked(1, "coordinates", lambda _node, _graph: [FARTHEST], "taken", "f"),
            Checked(2, "images", rows_of(0)),
        ),
        otherwise="regions are cut four images' widths beyond the image",
    ),
    "Scatter": _PICKED,
    "ScatterElements": _PICKED,
    "ScatterND": _COORDINATES,
    "Slice": BoundsRow(fixed=(1, 2, 3, 4)),
    "Split": BoundsRow(fixed=(1,)),
    "Squeeze": BoundsRow(fixed=(1,)),
    "TensorScatter": BoundsRow((Checked(2, "indices", _free_places),)),
    "Tile": BoundsRow(fixed=(1,)),
    "TopK": BoundsRow(fixed=(1,)),
    "Unsqueeze": BoundsRow(fixed=(1,)),
    "Upsample": BoundsRow(fixed=(1,)),
}
"""Rows by operator, as named by `operator_of`. MaxUnpool, losses and others are rewritten as these."""
