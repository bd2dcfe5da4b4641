"""Reads ONNX files: their external data, the order of nodes, and versions that onnxruntime accepts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from pathlib import Path

import onnx
from onnx import TensorProto, defs, helper

from toolchain.errors import UsageError
from toolchain.foreign import shortened
from toolchain.models.onnx_graph import all_names, all_nodes, called, tensors_of
from toolchain.models.reading.formats import ONNX, readable_endings
from toolchain.models.reading.network_file import LARGEST, NetworkFile
from toolchain.models.spec import MOST_ELEMENTS

# Declares graphs with too new operator sets under the newest set that onnxruntime supports.

NEWEST = 26
"""Newest operator set that the pinned onnxruntime accepts; it refuses newer files, whatever their content."""

MORE_TYPES = frozenset(
    {
        *(
            "BitShift",
            "Cast",
            "Celu",
            "Compress",
            "DepthToSpace",
            "DequantizeLinear",
            "Einsum",
            "Mod",
            "OneHot",
        ),
        *("QuantizeLinear", "Range", "ReduceLogSum", "ReduceLogSumExp", "ReverseSequence", "SpaceToDepth"),
        "Unique",
    }
)
"""Operators whose newer versions only accept more types or one attribute more.

onnxruntime refuses the new types and attributes by name. Under the older set it computes what onnx's own
tests of these operators expect.
"""


def with_known_opsets(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` declared under operator sets that onnxruntime supports; itself if it already is."""
    sets = for_onnxruntime(model.opset_import, all_nodes(model.graph))
    if sets == list(model.opset_import):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.opset_import[:]
    copy.opset_import.extend(sets)
    return copy


def for_onnxruntime(
    opsets: Iterable[onnx.OperatorSetIdProto], nodes: Iterable[onnx.NodeProto]
) -> list[onnx.OperatorSetIdProto]:
    """Return the operator sets to declare, so that onnxruntime reads these nodes with the same meaning.

    That is the newest set it supports if no node has changed since; else `opsets`, which onnxruntime refuses.
    """
    sets = list(opsets)
    standard = next((opset for opset in sets if opset.domain in ("", "ai.onnx")), None)
    if standard is None or standard.version <= NEWEST:
        return sets
    for node in nodes:
        if node.domain in ("", "ai.onnx") and node.op_type not in MORE_TYPES:
            try:
                since = defs.get_schema(node.op_type, standard.version).since_version
            except defs.SchemaError:
                return sets
            if since > NEWEST:
                return sets
    lowered = onnx.OperatorSetIdProto(domain=standard.domain, version=NEWEST)
    return [lowered if opset is standard else opset for opset in sets]


NEWEST_IR = 13
"""Newest IR version that the pinned onnxruntime accepts; it refuses newer files, whatever their content."""


def declare_known_ir(model: onnx.ModelProto, origin: str) -> None:
    """Lower the IR version of `model` to one that onnxruntime accepts.

    Later versions only added tensor types; an error about such a type names it.

    Raises
    ------
    UsageError
        The version is newer than the installed onnx, so its meaning is unknown.
    """
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise UsageError(
            f"{origin} has version {model.ir_version} of ONNX's file format (ir_version); known are 1 to "
            f"{onnx.IR_VERSION}",
            f"export it again with an older onnx; or, if it holds nothing newer, in Python: "
            f"m = onnx.load(FILE); m.ir_version = {NEWEST_IR}; onnx.save(m, FILE)",
        )
    model.ir_version = min(model.ir_version, NEWEST_IR)


def read_onnx(file: NetworkFile) -> onnx.ModelProto:
    """Return the graph of an ONNX file, with external data inside and its nodes in order.

    Raises
    ------
    UsageError
        The file is no ONNX file, truncated, broken, of an unknown version, or its external data is.
    """
    path = file.path
    model = onnx.ModelProto()
    try:
        model.ParseFromString(file.data)
    except Exception as error:  # protobuf's DecodeError, whose home differs between its implementations
        raise _not_onnx(f"{path}: not an ONNX file, or a truncated one", path) from error
    if not model.ir_version or not model.graph.node:
        raise _not_onnx(f"{path}: not an ONNX file: it holds no graph", path)
    if not all(isinstance(name, str) for name in all_names(model.graph)):
        raise _not_onnx(f"{path}: not an ONNX file: it holds broken names", path)
    declare_known_ir(model, str(path))
    put_in_order(model, str(path))
    for tensor in tensors_of(model):
        if abs(math.prod(tensor.dims)) > MOST_ELEMENTS:
            raise UsageError(
                f"{path}: tensor {shortened(repr(tensor.name))} is broken: no file holds what its "
                f"{len(tensor.dims)} dimensions speak of",
                "export it again",
            )
    read_external_data(model, file)
    return model


def _not_onnx(message: str, path: Path) -> UsageError:
    """Return the error for a file that is no ONNX file; one of another ending may be of another format."""
    known = path.suffix in ONNX.endings
    others = "" if known else f"; networks are read from files that end in {readable_endings()}"
    return UsageError(message, ONNX.again + others)


def read_external_data(model: onnx.ModelProto, file: NetworkFile) -> None:
    """Replace the external data of a model by the tensors themselves, in place.

    Raises
    ------
    UsageError
        A file with tensors is missing, outside the model's folder, or shorter than its tensors.
    """
    size = model.ByteSize() + sum(_external_bytes(tensor) for tensor in tensors_of(model))
    if size > LARGEST:
        raise UsageError(
            f"{file.path}: with its external data it has {size} bytes; at most {LARGEST} can be built",
            "export the network in parts, or with weights in float16 or int8",
        )
    for tensor in tensors_of(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        tensor.raw_data = _tensor_bytes(file.read_beside(location), entries, tensor, file.path)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _external_bytes(tensor: TensorProto) -> int:
    """Return the size of a tensor in another file, by its entry or else its shape; 0 if it is in none."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return 0
    length = next((entry.value for entry in tensor.external_data if entry.key == "length"), "")
    try:
        return max(0, int(length) if length else math.prod(tensor.dims) * _item_bytes(tensor))
    except ValueError:
        return 0  # refused where it is read


def _item_bytes(tensor: TensorProto) -> int:
    try:
        return int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except KeyError:
        return 0


def _tensor_bytes(data: bytes, entries: dict[str, str], tensor: TensorProto, path: Path) -> bytes:
    """Return the bytes of a tensor in the file that has them, after checking that they are in it."""
    location = entries["location"]
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(len(data) - offset)))
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (ValueError, KeyError) as error:
        raise UsageError(
            f"{path}: tensor {tensor.name!r} has a broken entry for {location}: {error}"
        ) from error
    # numpy's own types only: the size of ml_dtypes' packed types does not follow from their item size
    expected = math.prod(tensor.dims) * dtype.itemsize if dtype.kind in "fiub" else length
    if offset < 0 or length != expected or offset + length > len(data):
        raise UsageError(
            f"{path}: its external data {location} is truncated or foreign: tensor {tensor.name!r} needs "
            f"{expected} bytes from {offset}, the file has {len(data)}",
            f"copy {location} again",
        )
    return data[offset : offset + length]


# Puts the nodes of a graph in an order in which each reads what earlier ones computed.
#
# The standard asks files for it. Some exporters and tools that convert to float16 do not follow, and
# onnxruntime sorts such files itself.

_AGAIN = "export the network again"


def put_in_order(model: onnx.ModelProto, origin: str) -> None:
    """Sort the nodes of all graphs and functions of `model` topologically, in place.

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
    """Return the nodes' positions in topological order, earlier ones first; nodes on cycles are left out."""
    waiting = [len(places_before) for places_before in before]
    behind: list[list[int]] = [[] for _ in before]
    for place, needed in enumerate(before):
        for maker in needed:
            behind[maker].append(place)
    ready = [place for place, count in enumerate(waiting) if not count]
    heapify(ready)
    order = []
    while ready:
        place = heappop(ready)
        order.append(place)
        for reader in behind[place]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    return order


def _cycle(before: Sequence[Collection[int]], left: Collection[int]) -> list[int]:
    """Return the positions of nodes on a cycle, given those without a topological order."""
    path: list[int] = []
    place = min(left)
    while place not in path:
        path.append(place)
        place = min(maker for maker in before[place] if maker in left)
    return path[path.index(place) :]


def _read(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, and names that its inner graphs capture."""
    names = {name for name in node.input if name}
    for inner in _graphs(node):
        names |= _captured(inner)
    return names


def _captured(graph: onnx.GraphProto) -> set[str]:
    inside = {value.name for value in (*graph.input, *graph.initializer)}
    inside |= {sparse.values.name for sparse in graph.sparse_initializer}
    inside |= {name for node in graph.node for name in node.output}
    read: Iterable[str] = {name for node in graph.node for name in _read(node)}
    return {*read, *(value.name for value in graph.output)} - inside


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
