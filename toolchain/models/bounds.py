"""Checks indices and divisors: the table of operators, and the pass that inserts checks before them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import onnx

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.onnx_graph import attributes_of, input_values, node_name
from toolchain.models.rewrites.graph import FROM_BEGINNING, Graph, Rule, apply_rules, operator_of

# The rows of the bounds table: which inputs of an operator are checked, and how.

Extents = Callable[[onnx.NodeProto, Graph], Sequence[int]]
"""Returns the exclusive upper bounds of a node's values; LookupError for unknown shapes."""

Negative = Literal["refused", "from the end", "taken"]


@dataclass(frozen=True)
class Checked:
    """A bounds check of the values of one input while the network computes.

    Attributes
    ----------
    place
        Index of the input.
    noun
        What the values are, for messages.
    extents
        Exclusive upper bounds of the last axis' columns, or of all values; 0 for no bound.
    negative
        How negative values are treated: `taken` accepts them down to minus the extent.
    kinds
        Types of values to check, as numpy's kind letters.
    """

    place: int
    noun: str
    extents: Extents
    negative: Negative = "refused"
    kinds: str = "i"


@dataclass(frozen=True)
class Divisor:
    """A check, while the network computes, that the integers of one input are not 0."""

    place: int = 1


@dataclass(frozen=True)
class BoundsRow:
    """How an operator treats values out of range.

    Attributes
    ----------
    checks
        The checks of its inputs.
    fixed
        Indices of inputs that must be constants; a network that computes them is refused at import.
    otherwise
        Effect of out-of-range values that no check refuses, for the generated page.
    """

    checks: tuple[Checked | Divisor, ...] = ()
    fixed: tuple[int, ...] = ()
    otherwise: str = ""


def shape_of(name: str, graph: Graph) -> tuple[int, ...]:
    """Return the shape of a tensor; raise LookupError if it is not known."""
    shape = graph.shape(name)
    if shape is None:
        raise LookupError(name)
    return shape


def along(table: int, axis: str = "axis", default: int = 0) -> Extents:
    """Return a function that gives the extent of input `table` along the axis that an attribute names."""

    def extents(node: onnx.NodeProto, graph: Graph) -> list[int]:
        shape = shape_of(node.input[table], graph)
        return [shape[attributes_of(node).get(axis, default)]]

    return extents


def rows_of(table: int) -> Extents:
    """Return a function that gives the first extent of input `table`."""
    return lambda node, graph: [shape_of(node.input[table], graph)[0]]


def coordinates(node: onnx.NodeProto, graph: Graph) -> list[int]:
    """Return the extents that bound the columns of GatherND's and ScatterND's indices."""
    data, indices = (shape_of(name, graph) for name in node.input[:2])
    first = attributes_of(node).get("batch_dims", 0)
    return list(data[first : first + indices[-1]])


def lengths(axis: str | None = None) -> Extents:
    """Return a function that gives one more than input 0's extent along an attribute's axis or the first."""

    def extents(node: onnx.NodeProto, graph: Graph) -> list[int]:
        time = attributes_of(node).get(axis, 0) if axis else attributes_of(node).get("layout", 0)
        return [shape_of(node.input[0], graph)[time] + 1]

    return extents


# Refuses networks whose constant indices or divisors are out of range.


def refuse_constant(
    stored: Array, check: Checked | Divisor, extents: tuple[int, ...], node: onnx.NodeProto, graph: Graph
) -> None:
    """Raise UsageError if a constant index is out of range, or a constant divisor is 0."""
    if isinstance(check, Divisor):
        wrong, reason = stored == 0, "divides by it"
    else:
        ends = np.resize(np.array(extents, np.int64), stored.shape or (1,)).reshape(stored.shape)
        begins = 0 * ends if check.negative == "refused" else -ends
        wrong = (ends != 0) & ~((stored >= begins) & (stored < ends))
        reason = f"takes {check.noun} from {begins.min()} to {ends.max() - 1}"
    for place in _first(wrong):
        at = f" at [{', '.join(map(str, place))}]" if place else ""
        raise UsageError(
            f"{graph.origin}: node {node_name(node)!r} ({node.op_type}) {reason}, and its constant "
            f"{node.input[check.place]!r} holds {stored[place]}{at}",
            "export the network again",
        )


def refuse_overflow(divisor: Array | None, x: Array | None, node: onnx.NodeProto, graph: Graph) -> None:
    """Raise UsageError if a constant least integer is divided by a constant -1: it has no reference."""
    if divisor is None or x is None or x.dtype.kind != "i":
        return
    if (x == np.iinfo(x.dtype).min).any() and (divisor == -1).any():
        raise UsageError(
            f"{graph.origin}: node {node_name(node)!r} ({node.op_type}) divides constants, and the quotient "
            f"of {np.iinfo(x.dtype).min} and -1 is no {x.dtype}",
            "export the network again",
        )


def _first(wrong: Array) -> Iterator[tuple[int, ...]]:
    if wrong.any():
        yield tuple(int(place) for place in np.unravel_index(int(np.argmax(wrong)), wrong.shape))


# The table of operators whose input values decide an address, an extent or a division.
#
# We refuse the values that onnxruntime refuses. In addition, no value can make generated code access memory
# outside a buffer (`lowering/graph/confined.py`).

FARTHEST = 2**31
"""Largest side of a region in pixels of the network's input: far larger than every image."""

MICROSOFT = "com.microsoft."


def _free_places(node: onnx.NodeProto, graph: Graph) -> list[int]:
    """Return one more than the last step at which TensorScatter's update fits; circular caches have none."""
    attributes = attributes_of(node)
    axis = attributes.get("axis", -2)
    cache, update = (shape_of(name, graph)[axis] for name in node.input[:2])
    return [2**63 - 1 if attributes.get("mode", b"linear") == b"circular" else cache - update + 1]


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


INDICES, DIVISOR = "CheckIndices", "CheckDivisor"
"""Check operators, known to the importer: they return their input with negative indices resolved."""

_NEGATIVES = ("refused", "from the end", "taken")
_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def with_checks(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return a static model with checks of indices and divisors that are computed or are inputs.

    Parameters
    ----------
    model
        With inferred shapes.

    Raises
    ------
    UsageError
        A constant is out of range; names the node, the value and its place.
    """
    inserter = _Inserter(model)
    rules: dict[str, Rule] = dict.fromkeys(BOUNDS, inserter.check)
    return apply_rules(model, rules, origin)


class _Inserter:
    """Inserts the checks of one model; the same values are checked only once."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._inputs = {value.name for value in input_values(model.graph)}
        self._makers = {name: node for node in model.graph.node for name in node.output}
        self._checked: dict[tuple[object, ...], str] = {}

    def check(self, node: onnx.NodeProto, graph: Graph) -> bool:
        """Write a node after the checks of its inputs; return False if nothing needs a check."""
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for check in map(partial(_check_of, node), BOUNDS[operator_of(node)].checks):
            name = node.input[check.place] if check.place < len(node.input) else ""
            if not name or np.dtype(_known(graph.dtype(name), node, graph)).kind not in _kinds(check):
                continue
            extents = () if isinstance(check, Divisor) else _extents(check, node, graph)
            stored = graph.value(name)
            if isinstance(check, Divisor):
                refuse_overflow(stored, graph.value(node.input[0]), node, graph)
            if stored is not None:
                refuse_constant(stored, check, extents, node, graph)
                continue
            key = (name, type(check), extents, getattr(check, "negative", ""))
            if key not in self._checked:
                self._checked[key] = self._write(check, name, extents, node, graph)
            copy.input[check.place] = self._checked[key]
        if copy.input[:] == node.input[:]:
            return False
        graph.emitted.append(copy)
        return True

    def _write(
        self,
        check: Checked | Divisor,
        name: str,
        extents: tuple[int, ...],
        node: onnx.NodeProto,
        graph: Graph,
    ) -> str:
        source, cast = name, False
        while source in self._makers and source not in self._inputs:
            maker = self._makers[source]
            if maker.op_type not in _VIEWS and maker.op_type != "Cast":
                break
            source, cast = maker.input[0], cast or maker.op_type == "Cast"
        known = source in self._inputs
        what = (
            f"input {printable(repr(source))}"
            if known
            else f"{printable(repr(name))}, which the network computes,"
        )
        shape, extents_of_values = graph.shape(source), graph.shape(name)
        # Messages give the index in the input's shape if the values are the same in the same order.
        seen = (
            known
            and len(extents) < 2
            and shape is not None
            and extents_of_values is not None
            and shape != extents_of_values
        )
        given = graph.reshape(name, shape or ()) if seen else name
        if isinstance(check, Divisor):
            checked = graph.emit(DIVISOR, [given], what=what, who=f"{_who(node)} divides by it")
        else:
            who = f"{_who(node)} takes {check.noun}"
            negative = _NEGATIVES.index(check.negative)
            checked = graph.emit(INDICES, [given], what=what, who=who, extents=extents, negative=negative)
        return graph.reshape(checked, extents_of_values or ()) if seen else checked


def _check_of(node: onnx.NodeProto, check: Checked | Divisor) -> Checked | Divisor:
    """Return a check, stricter if the node stands for an operator without negative indices."""
    if isinstance(check, Checked) and node.doc_string == FROM_BEGINNING:
        return replace(check, negative="refused")
    return check


def _kinds(check: Checked | Divisor) -> str:
    return "iu" if isinstance(check, Divisor) else check.kinds


def _who(node: onnx.NodeProto) -> str:
    return f"node {printable(repr(node_name(node)))} ({node.op_type})"


def _known(dtype: str, node: onnx.NodeProto, graph: Graph) -> str:
    if dtype == "?":
        raise _unknown(node, graph)
    return dtype


def _unknown(node: onnx.NodeProto, graph: Graph) -> UsageError:
    return UsageError(
        f"{graph.origin}: unsupported use of {node.op_type} (node {node_name(node)!r}): the shape or type of "
        "what it reads is not known, so that its indices cannot be checked",
        "check the shapes with `toolchain model inspect`, or export the network without this node",
    )


def _extents(check: Checked, node: onnx.NodeProto, graph: Graph) -> tuple[int, ...]:
    try:
        return tuple(int(extent) for extent in check.extents(node, graph))
    except (LookupError, IndexError):
        raise _unknown(node, graph) from None
