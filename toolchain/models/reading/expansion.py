"""Computes the size of a graph with its functions inlined, before they are inlined.

Functions that call others twice double the size at each step, so a file of a few kilobytes could fill any
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import onnx

from toolchain.errors import UsageError
from toolchain.models.walk import all_nodes, nested_nodes

MOST_NODES = 50_000
"""Most nodes of a graph with inlined functions. The largest networks in use have some thousands."""

MOST_BYTES = 2**30

_DEEPEST = 200

_Key = tuple[str, str, str]  # domain, name, overload


class _Size(NamedTuple):
    nodes: int
    bytes: int


def check_expansion(model: onnx.ModelProto, origin: str) -> None:
    """Refuse a model that becomes too large when its functions are inlined.

    Raises
    ------
    UsageError
        The result has too many nodes or bytes, or a function calls itself.
    """
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    known: dict[_Key, _Size] = {}

    def written_out(nodes: Iterator[onnx.NodeProto], calling: tuple[_Key, ...]) -> _Size:
        count = size = 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            if key not in functions:
                count, size = count + 1, size + node.ByteSize()
                continue
            if key in calling or len(calling) == _DEEPEST:
                what = "calls itself" if key in calling else f"is the {_DEEPEST}th of a chain of calls"
                raise UsageError(
                    f"{origin}: its function {node.op_type!r} {what}", "export it again, without functions"
                )
            if key not in known:
                known[key] = written_out(nested_nodes(functions[key].node), (*calling, key))
            count, size = count + known[key].nodes, size + known[key].bytes
        return _Size(count, size)

    found = written_out(all_nodes(model.graph), ())
    if found.nodes > MOST_NODES or found.bytes > MOST_BYTES:
        raise UsageError(
            f"{origin}: with its functions written out it has {found.nodes} nodes in {found.bytes} bytes; at "
            f"most {MOST_NODES} and {MOST_BYTES} are taken",
            "export it again, without functions, or in parts",
        )
