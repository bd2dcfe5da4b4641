"""Cuts a graph at tensors that become its outputs, and finds suitable tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from shlex import quote

import onnx

from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.onnx_graph import all_graphs, input_values


def cut(model: onnx.ModelProto, outputs: Sequence[str], origin: str) -> onnx.ModelProto:
    """Return a copy of `model` that computes `outputs` alone, and reads only the inputs that these need.

    Parameters
    ----------
    model
        The model, not changed.
    outputs
        Values of `--outputs`: each a tensor's name, or several between commas; none: the same model.
    origin
        Name of the source, for messages.

    Raises
    ------
    UsageError
        A tensor does not exist, or no node computes it; the message suggests similar names.
    """
    if not outputs:
        return model
    graph = model.graph
    names = _named(graph, outputs, origin)
    nodes = needed_nodes(graph, names)
    read = {name for node in nodes for name in read_by(node)}
    declared = {value.name: value for value in (*graph.value_info, *graph.output)}
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:], part.graph.output[:], part.graph.input[:], part.graph.initializer[:]
    part.graph.node.extend(nodes)
    part.graph.input.extend(value for value in graph.input if value.name in read)
    part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
    part.graph.output.extend(declared.get(name, onnx.ValueInfoProto(name=name)) for name in names)
    return part


def with_output_types(model: onnx.ModelProto, folded: onnx.ModelProto) -> onnx.ModelProto:
    """Write the types that folding inferred for the outputs at which `model` was cut."""
    known = {value.name: value for value in folded.graph.output}
    for value in model.graph.output:
        if not value.HasField("type"):
            value.CopyFrom(known[value.name])
    return model


def needed_nodes(graph: onnx.GraphProto, outputs: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes that `outputs` are computed from, in the order of the graph."""
    needed = set(outputs)
    kept = []
    for node in reversed(graph.node):
        if not needed.isdisjoint(name for name in node.output if name):
            needed.update(read_by(node))
            kept.append(node)
    return kept[::-1]


def read_by(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, including those that graphs inside it may read from outside."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for graph in all_graphs(inner):
                names.update(name for node in graph.node for name in node.input if name)
                names.update(value.name for value in graph.output)
    return names


def cut_points(folded: onnx.GraphProto, bad: Collection[str], source: onnx.GraphProto) -> list[str]:
    """Return the last tensors that can be computed before the nodes that cannot be compiled.

    Parameters
    ----------
    folded
        The graph after folding, without superfluous nodes.
    bad
        The first outputs of the nodes that cannot be compiled.
    source
        The original graph: only its tensors can be named, not those inside its nodes.

    Returns
    -------
    list
        In the order of the graph, with the outputs that do not depend on these nodes. Empty if nothing is
        computed before them.
    """
    makers = {name: node for node in folded.node for name in node.output if name}
    visible = {name for node in source.node for name in node.output if name}
    behind: set[str] = set()
    needed: list[str] = []
    for node in folded.node:
        read = read_by(node)
        if next(filter(None, node.output), "") in bad or not behind.isdisjoint(read):
            behind.update(name for name in node.output if name)
            needed += sorted(read)
    needed += [value.name for value in folded.output]
    points: dict[str, None] = {}
    seen: set[str] = set()
    while needed:
        name = needed.pop(0)
        if name in behind or name in seen or name not in makers:
            continue
        seen.add(name)
        if name in visible:
            points[name] = None
        else:  # inside an `If` or loop that was written flat: go back to its inputs
            needed += makers[name].input
    order = {name: position for position, name in enumerate(makers)}
    return sorted(points, key=lambda name: order[name])


def outputs_option(names: Sequence[str]) -> str:
    """Return the command-line option that cuts at `names`."""
    if any("," in name for name in names):
        return " ".join(f"--outputs {quote(name)}" for name in names)
    return f"--outputs {quote(','.join(names))}"


def _named(graph: onnx.GraphProto, outputs: Sequence[str], origin: str) -> list[str]:
    """Return the tensors that `--outputs` names; a name with commas is one name if the graph has it."""
    computed = {name for node in graph.node for name in node.output if name}
    inputs = {value.name for value in input_values(graph)}
    names: dict[str, None] = {}
    for text in outputs:
        for name in [text] if text in computed else [part.strip() for part in text.split(",")]:
            if name in computed:
                names[name] = None
                continue
            option = f"--outputs {printable(name)}: {origin}"
            if name in inputs:
                raise UsageError(
                    f"{option}: this is an input, and nothing is computed for it", "leave it out"
                )
            close = get_close_matches(name, computed, 3, 0.5) or [value.name for value in graph.output]
            raise UsageError(
                f"{option} has no tensor of this name",
                "there are: " + ", ".join(printable(name) for name in close),
            )
    return list(names)
