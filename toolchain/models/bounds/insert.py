"""Inserts a check before every node whose indices or divisors could be out of range."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import onnx

from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.bounds.constants import refuse_constant, refuse_overflow
from toolchain.models.bounds.row import Checked, Divisor
from toolchain.models.bounds.table import BOUNDS
from toolchain.models.rewrites.graph import FROM_BEGINNING, Graph, Rule, apply_rules, operator_of
from toolchain.models.walk import input_values, node_name

INDICES, DIVISOR = "CheckIndices", "CheckDivisor"
"""Our own operators, known to the importer: they return their input, with negative indices resolved."""

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
        for check in map(partial(_own, node), BOUNDS[operator_of(node)].checks):
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
        shape, own = graph.shape(source), graph.shape(name)
        # Messages give the index in the input's shape if the values are the same in the same order.
        seen = known and len(extents) < 2 and shape is not None and own is not None and shape != own
        given = graph.reshape(name, shape or ()) if seen else name
        if isinstance(check, Divisor):
            made = graph.emit(DIVISOR, [given], what=what, who=f"{_who(node)} divides by it")
        else:
            who = f"{_who(node)} takes {check.noun}"
            negative = _NEGATIVES.index(check.negative)
            made = graph.emit(INDICES, [given], what=what, who=who, extents=extents, negative=negative)
        return graph.reshape(made, own or ()) if seen else made


def _own(node: onnx.NodeProto, check: Checked | Divisor) -> Checked | Divisor:
    """Return the check for a node, which may stand for another operator."""
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
