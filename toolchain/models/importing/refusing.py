"""Refuses graphs that cannot be compiled, and suggests how to compile a part of them."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

import onnx

from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.folding.finish import COUNTING
from toolchain.models.folding.result import Folded
from toolchain.models.importing.importer import unsupported_operators
from toolchain.models.importing.operators import MICROSOFT
from toolchain.models.preparing.cutting import cut_points, outputs_option, read_by
from toolchain.models.preparing.declared import dimensions
from toolchain.models.rewrites.fused import SAVED_WITHOUT
from toolchain.models.spec import NUMBERS
from toolchain.models.walk import called, dtype_of_code, node_name, type_name

NODES_SHOWN = 5
SMALL = 16
"""Most elements of an input that may be a parameter, such as a sample rate, a size or a threshold."""

_DECIDING = {"If": slice(0, 1), "Loop": slice(0, 2)}
"""The inputs that control such a node; for other nodes all but the first."""


def check_compiles(folded: Folded, source: onnx.ModelProto, origin: str) -> None:
    """Refuse a graph with nodes that cannot be compiled; the message lists all unsupported operators.

    Parameters
    ----------
    folded
        The graph to import.
    source
        The original graph.
    origin
        Name of the source, for messages.

    Raises
    ------
    UsageError
        The message names the nodes; the hint says at which tensors the graph can be cut.
    """
    unsupported = unsupported_operators(folded.model)
    if unsupported:
        listed = "; ".join(f"{operator} ({_some(nodes)})" for operator, nodes in unsupported.items())
        hint = "export the network without these (`toolchain model inspect` lists the operators)"
        if all(operator.startswith(MICROSOFT) for operator in unsupported):  # its layouts are domains of it
            hint = SAVED_WITHOUT
        raise UsageError(
            f"{origin}: unsupported operators: {printable(listed)}", hint + _or_cut(folded, source)
        )
    if folded.problems:
        problem = folded.problems[0]
        name = printable(repr(node_name(problem.node)))
        if freeze := inputs_to_freeze(folded):
            values = " ".join(f"--input-value {quote(input_)}=V" for input_ in freeze)
            hint = f"if {' and '.join(map(repr, freeze))} never changes, make it a constant: {values}"
        else:
            hint = "export the network without this node" + _or_cut(folded, source)
        raise UsageError(f"{origin}: {problem.node.op_type} (node {name}) {problem.reason}", hint)


def check_element_types(model: onnx.ModelProto, origin: str) -> None:
    """Refuse a graph with nodes that compute in types of few bits, or in others without code.

    Raises
    ------
    UsageError
        The message names the first node.
    """
    graph = model.graph
    types = {tensor.name: dtype_of_code(tensor.data_type) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.elem_type:
            types[value.name] = type_name(value.type)
    ends = {value.name for value in (*graph.input, *graph.output)}  # refused in words of their own
    for node in graph.node:
        for name in (*node.input, *node.output):
            if types.get(name, "bool") not in NUMBERS and name not in ends:
                raise UsageError(
                    f"{origin}: {called(node)} computes in {types[name]}, for which there is no code",
                    "export the network with activations of float32, or quantised to int8; weights alone may "
                    "be of int4 or of 8-bit floats",
                )


def ways_to_cut(folded: Folded, source: onnx.ModelProto) -> list[str]:
    """Return the last tensors before the nodes that cannot be compiled; empty if there is a better way."""
    if not unsupported_operators(folded.model) and inputs_to_freeze(folded):
        return []
    nodes = [problem.node for problem in folded.problems]
    for unsupported in unsupported_operators(folded.model).values():
        nodes += unsupported
    bad = {next(filter(None, node.output), "") for node in nodes}
    return cut_points(folded.model.graph, bad, source.graph) if bad else []


def _or_cut(folded: Folded, source: onnx.ModelProto) -> str:
    names = ways_to_cut(folded, source)
    if not names:
        return ""
    return f"; or build what comes before, and do the rest in your own program: {outputs_option(names)}"


def inputs_to_freeze(folded: Folded) -> list[str]:
    """Return the inputs that control the first such node, if these are few and small; else none."""
    if not folded.problems or folded.problems[0].node.op_type in COUNTING:
        return []
    node = folded.problems[0].node
    makers = {name: each for each in folded.model.graph.node for name in each.output if name}
    inputs = {value.name: value for value in folded.model.graph.input}
    wanted = [name for name in node.input[_DECIDING.get(node.op_type, slice(1, None))] if name]
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in seen and name in makers:
            wanted += read_by(makers[name])
        seen.add(name)
    found = [name for name in inputs if name in seen]
    small = all(_is_small(inputs[name]) for name in found)
    return found if small and len(found) < len(inputs) else []


def _is_small(value: onnx.ValueInfoProto) -> bool:
    count = 1
    for extent in dimensions(value) or ():
        count *= extent if isinstance(extent, int) else SMALL
    return count <= SMALL


def _some(nodes: Iterable[onnx.NodeProto]) -> str:
    names = [node_name(node) for node in nodes]
    more = len(names) - NODES_SHOWN
    return ", ".join(names[:NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")
