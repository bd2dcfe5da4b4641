"""Checks the size of a graph with its functions inlined, and its nodes against the ONNX standard."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import onnx
from onnx import AttributeProto, checker, defs, numpy_helper

from toolchain.errors import UsageError
from toolchain.foreign import first_line, printable, shortened
from toolchain.models.onnx_graph import all_graphs, all_nodes, all_tensors, called, nested_nodes

# Computes the size of a graph with its functions inlined, before they are inlined.
#
# Functions that call others twice double the size at each step, so a file of a few kilobytes could fill any
# memory.

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
    functions = {
        (function.domain, function.name, function.overload): function for function in model.functions
    }
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

    expanded = written_out(all_nodes(model.graph), ())
    if expanded.nodes > MOST_NODES or expanded.bytes > MOST_BYTES:
        raise UsageError(
            f"{origin}: with its functions written out it has {expanded.nodes} nodes in "
            f"{expanded.bytes} bytes; at most {MOST_NODES} and {MOST_BYTES} are taken",
            "export it again, without functions, or in parts",
        )


_AGAIN = "export the network again"
_LIKE = "an operator of this name is known: {}; " + _AGAIN


def check_valid(model: onnx.ModelProto, origin: str) -> None:
    """Refuse a model that violates the ONNX standard.

    Raises
    ------
    UsageError
        The message has the first violation, and the node.
    """
    _check_ends(model.graph, origin)
    for tensor in all_tensors(model.graph):
        try:
            numpy_helper.to_array(tensor)
        except Exception as error:  # ValueError, KeyError and others
            what = f"an array {list(tensor.dims)} of {_type_name(tensor.data_type)}"
            raise UsageError(
                f"{origin}: tensor {shortened(repr(tensor.name))} is broken, {what}: {first_line(error)}",
                "export or download it again",
            ) from error
    versions = {
        "" if opset.domain == "ai.onnx" else opset.domain: opset.version for opset in model.opset_import
    }
    for node in all_nodes(model.graph):
        if problem := _violation(node, versions):
            what, hint = problem
            raise UsageError(f"{origin}: {called(node)} {what}", hint)
    # The types of outputs at which the graph was cut, and empty types, are not inferred yet.
    held = [(graph, list(graph.output)) for graph in all_graphs(model.graph)]
    try:
        for graph, outputs in held:
            del graph.output[:]
            graph.output.extend(value for value in outputs if value.HasField("type"))
        checker.check_model(model)
    except Exception as error:  # ValidationError; UnicodeDecodeError where names are broken
        raise UsageError(
            f"{origin}: not a valid ONNX graph: {first_line(error)}", "export it again"
        ) from error
    finally:
        for graph, outputs in held:
            del graph.output[:]
            graph.output.extend(outputs)


def _check_ends(graph: onnx.GraphProto, origin: str) -> None:
    for kind, values in (("inputs", graph.input), ("outputs", graph.output)):
        names = [value.name for value in values]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"{origin}: two of its {kind} are called {printable(repr(twice[0]))}", _AGAIN)
    if not graph.output:
        raise UsageError(
            f"{origin}: it has no outputs, so that nothing would be computed", "name tensors: --outputs NAME"
        )
    for value in graph.output:
        kind = value.type.WhichOneof("value")
        if kind not in (None, "tensor_type"):
            raise UsageError(
                f"{origin}: its output {printable(repr(value.name))} is no tensor but of the kind "
                f"{kind.removesuffix('_type')}, and code is made for tensors",
                "build the tensors that it is made of: --outputs NAME; or export the network without it",
            )


def _violation(node: onnx.NodeProto, versions: dict[str, int]) -> tuple[str, str] | None:
    """Return the first violation by a node of a known domain, and a hint; None if this check finds none."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain not in versions:
        shown = printable(repr(domain))
        return f"is of the domain {shown}, and the file declares no operator set of it", _AGAIN
    names = _operators(domain)
    if not names:
        return None  # a domain that onnx does not know
    if node.op_type not in names:
        near = difflib.get_close_matches(node.op_type, names, n=1)
        what = f"is no operator of {printable(domain) or 'ONNX'}"
        return what, _LIKE.format(near[0]) if near else "export the network without this node"
    try:
        schema = defs.get_schema(node.op_type, versions[domain], domain)
    except defs.SchemaError:
        newer = min(version for version in names[node.op_type] if version > versions[domain])
        return (
            f"is an operator since set {newer}, and the file declares set {versions[domain]}",
            f"export the network with operator set {newer}: opset_version={newer} in torch.onnx.export",
        )
    if schema.deprecated:
        return f"is no operator since set {schema.since_version}, which the file declares", _AGAIN
    return _wrong_inputs(node, schema) or _wrong_attributes(node, schema)


def _wrong_inputs(node: onnx.NodeProto, schema: defs.OpSchema) -> tuple[str, str] | None:
    for kind, names, least, most in (
        ("inputs", node.input, schema.min_input, schema.max_input),
        ("outputs", node.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            takes = (
                f"{least}" if least == most else f"{least} to {most}" if most < 2**30 else f"{least} or more"
            )
            return f"has {len(names)} {kind}, and the operator {takes}", _AGAIN
    for value, name in zip(schema.inputs, node.input, strict=False):
        if not name and value.option == defs.OpSchema.FormalParameterOption.Single:
            return f"lacks its input {value.name!r}", _AGAIN
    return None


def _wrong_attributes(node: onnx.NodeProto, schema: defs.OpSchema) -> tuple[str, str] | None:
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, declared in schema.attributes.items():
        if declared.required and name not in given:
            return f"lacks its attribute {name!r}", _AGAIN
    for name, attribute in given.items():
        if name not in schema.attributes:
            if node.domain in ("", "ai.onnx"):
                known = ", ".join(schema.attributes) or "none"
                return f"has an attribute {printable(repr(name))}; the operator's are: {known}", _AGAIN
            continue
        expected = int(schema.attributes[name].type)
        if attribute.type != expected and not attribute.ref_attr_name:
            kinds = [AttributeProto.AttributeType.Name(code).lower() for code in (attribute.type, expected)]
            return f"has {kinds[0]} as its attribute {name!r}, which is {kinds[1]}", _AGAIN
    return None


def _operators(domain: str) -> dict[str, list[int]]:
    """Return the operators of a domain of onnx, and the sets in which each changed; empty for others."""
    if not _ALL:
        for schema in defs.get_all_schemas_with_history():
            _ALL.setdefault(schema.domain, {}).setdefault(schema.name, []).append(schema.since_version)
    return _ALL.get(domain, {})


_ALL: dict[str, dict[str, list[int]]] = {}


def _type_name(code: int) -> str:
    known: Iterable[int] = onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(code).lower() if code in known else f"type {code}"
