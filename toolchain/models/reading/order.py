"""Puts the nodes of a graph in an order in which each reads what earlier ones computed.

The standard asks files for it. Some exporters and tools that convert to float16 do not follow, and
onnxruntime sorts such files itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

import onnx

from toolchain.errors import UsageError
from toolchain.foreign import shortened
from toolchain.models.walk import called

_AGAIN = "export the network again"


def put_in_order(model: onnx.ModelProto, origin: str) -> None:
    """Sort the nodes of all graphs and functions of `model`, in place; what is in order stays as it is.

    Nodes that do not depend on each other keep the order that they have.

    Raises
    ------
    UsageError
        A node reads what nothing computes, two nodes compute the same tensor, or nodes wait for each other.
    """
    _sort_graph(model.graph, frozenset(), origin)
    for function in model.functions:
        _sort(function.node, frozenset(function.input), origin, f" of its function {function.name!r}")


def _sort_graph(graph: onnx.GraphProto, outside: Collection[str], origin: str) -> None:
    stored = {tensor.name for tensor in graph.initializer}
    stored |= {sparse.values.name for sparse in graph.sparse_initializer}
    given = {*outside, *stored, *(value.name for value in graph.input)}
    _sort(graph.node, given, origin, "")
    computed = given | {name for node in graph.node for name in node.output}
    for value in graph.output:
        if value.name not in computed:
            raise UsageError(
                f"{origin}: nothing computes its output {shortened(repr(value.name))}",
                f"{_AGAIN}; or build other tensors of it: --outputs NAME",
            )


def _sort(nodes: Sequence[onnx.NodeProto], given: Collection[str], origin: str, where: str) -> None:
    """Sort the repeated field `nodes` in place, and the graphs inside its nodes."""
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers or name in given:
                other = (
                    f"the result of {called(nodes[makers[name]])}"
                    if name in makers
                    else "an input or constant"
                )
                what = f"{called(node)}{where} computes {shortened(repr(name))}"
                raise UsageError(f"{origin}: {what}, which is {other}, too", _AGAIN)
            makers[name] = place
    before: list[set[int]] = []
    for node in nodes:
        read = _read(node)
        unknown = sorted((name for name in read if name not in makers and name not in given), key=str)
        if unknown:
            name = shortened(repr(unknown[0]))
            raise UsageError(f"{origin}: {called(node)}{where} reads {name}, which nothing computes", _AGAIN)
        before.append({makers[name] for name in read if name in makers})
    order = _order(before)
    if len(order) < len(nodes):
        cycle = [called(nodes[place]) for place in _cycle(before, set(range(len(nodes))) - set(order))]
        wait = (
            "wait for each other: each reads what the next computes" if len(cycle) > 1 else "waits for itself"
        )
        raise UsageError(
            f"{origin}: {', '.join(cycle[:3])}{where} {wait}",
            f"{_AGAIN}; what one inference keeps for the next must be an input and an output",
        )
    if order != list(range(len(nodes))):
        moved = [onnx.NodeProto.FromString(nodes[place].SerializeToString()) for place in order]
        del nodes[:]  # type: ignore[attr-defined]  # a field of protobuf
        nodes.extend(moved)  # type: ignore[attr-defined]
    known = {*given, *makers}
    for node in nodes:
        for inner in _graphs(node):
            _sort_graph(inner, known, origin)


def _order(before: Sequence[Collection[int]]) -> list[int]:
    """Return the places in an order, those that come first in the file first; without those on cycles."""
    waiting = [len(each) for each in before]
    behind: list[list[int]] = [[] for _ in before]
    for place, needed in enumerate(before):
        for each in needed:
            behind[each].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    heapify(ready)
    order = []
    while ready:
        place = heappop(ready)
        order.append(place)
        for each in behind[place]:
            waiting[each] -= 1
            if not waiting[each]:
                heappush(ready, each)
    return order


def _cycle(before: Sequence[Collection[int]], left: Collection[int]) -> list[int]:
    """Return nodes that wait for each other, of those that have no place in the order."""
    path: list[int] = []
    place = min(left)
    while place not in path:
        path.append(place)
        place = min(each for each in before[place] if each in left)
    return path[path.index(place) :]


def _read(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, and those that graphs inside it read from outside of them."""
    names = {name for name in node.input if name}
    for inner in _graphs(node):
        names |= _captured(inner)
    return names


def _captured(graph: onnx.GraphProto) -> set[str]:
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own |= {sparse.values.name for sparse in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    read: Iterable[str] = {name for node in graph.node for name in _read(node)}
    return {*read, *(value.name for value in graph.output)} - own


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
