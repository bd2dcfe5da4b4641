"""Assembles the folded graph from the nodes that its outputs need."""

from __future__ import annotations

from collections.abc import Collection

import onnx
from onnx import helper

from toolchain.models.folding.folded import Folded, Problem, Scope
from toolchain.models.folding.walk import Walk
from toolchain.models.onnx_graph import all_nodes, input_values

COUNTING = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose output shapes depend on the data."""

DEPENDS = "makes a tensor whose shape depends on the data"


def finish(walk: Walk, scope: Scope, frozen: Collection[str]) -> Folded:
    """Return the folded model.

    Parameters
    ----------
    walk
        The walk after all nodes.
    scope
        The names of the whole graph.
    frozen
        Inputs that have become constants.
    """
    source = walk.model
    outputs = _outputs(walk, scope)
    kept, needed = _needed(walk, [value.name for value in outputs])
    model = onnx.ModelProto()
    model.ir_version, model.producer_name = source.ir_version, source.producer_name
    model.opset_import.extend(source.opset_import)
    graph = model.graph
    graph.name = source.graph.name
    graph.input.extend(value for value in input_values(source.graph) if value.name not in frozen)
    graph.output.extend(outputs)
    nodes = [walk.nodes[index] for index in kept]
    graph.node.extend(nodes)
    for name, constant in walk.values.items():
        if name in needed:
            tensor = graph.initializer.add()
            tensor.CopyFrom(constant.tensor)
            tensor.name = name
    declared = {value.name for value in (*graph.input, *graph.output)}
    for node in nodes:
        for name in node.output:
            if name in walk.types and name not in declared:
                graph.value_info.add(name=name).type.CopyFrom(walk.types[name])
    problems = [problem for index in kept if (problem := _problem(walk, index, needed)) is not None]
    return Folded(model, problems)


def _renamed(walk: Walk, name: str) -> str:
    """Rename a constant that is an output, since a node must produce the output."""
    fresh = f"{name}.value"
    while fresh in walk.values or fresh in walk.types:
        fresh += "_"
    walk.values[fresh] = walk.values.pop(name)
    if name in walk.types:
        walk.types[fresh] = walk.types[name]
    for node in walk.nodes:
        for place, read in enumerate(node.input):
            if read == name:
                node.input[place] = fresh
    return fresh


def _problem(walk: Walk, index: int, needed: Collection[str]) -> Problem | None:
    """Return the problem of a node whose inputs all have shapes but whose output has none; else None."""
    node = walk.nodes[index]
    if index in walk.problems or node.domain not in ("", "ai.onnx"):
        return walk.problems.get(index)
    if node.op_type in COUNTING:
        return Problem(node, DEPENDS)
    if any(walk.shape(name) is None for name in node.input if name):
        return None
    if all(walk.shape(name) is not None for name in node.output if name in needed):
        return None
    kinds = {walk.types[name].WhichOneof("value") for name in node.output if name in walk.types}
    return Problem(node, "makes no tensor" if kinds & {"sequence_type", "optional_type"} else DEPENDS)


def _outputs(walk: Walk, scope: Scope) -> list[onnx.ValueInfoProto]:
    """Return the outputs under their names, with their types as far as known."""
    outputs = []
    for value in walk.model.graph.output:
        source = scope.find(value.name)
        if source == value.name and source in walk.values:
            source = _renamed(walk, source)
        if source != value.name:
            walk.nodes.append(helper.make_node("Identity", [source], [value.name], value.name))
        output = onnx.ValueInfoProto(name=value.name)
        output.type.CopyFrom(walk.types.get(source, value.type))
        walk.types[value.name] = output.type
        outputs.append(output)
    return outputs


def _needed(walk: Walk, outputs: list[str]) -> tuple[list[int], set[str]]:
    """Return the positions of the nodes that the outputs need, and all names that these read."""
    needed = set(outputs)
    kept = []
    for index in range(len(walk.nodes) - 1, -1, -1):
        node = walk.nodes[index]
        if needed.isdisjoint(name for name in node.output if name):
            continue
        kept.append(index)
        needed.update(name for name in node.input if name)
        for inner in all_nodes(helper.make_graph([node], "", [], [])) if _holds_graphs(node) else ():
            needed.update(inner.input)
    return kept[::-1], needed


def _holds_graphs(node: onnx.NodeProto) -> bool:
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
