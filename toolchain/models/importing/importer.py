"""Imports an ONNX graph as a Relax module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import checker, numpy_helper

from toolchain.errors import UsageError
from toolchain.foreign import first_line, printable
from toolchain.models.bounds.insert import with_checks
from toolchain.models.preparing.batch_norms import fold_batch_norms
from toolchain.models.preparing.padding import with_explicit_pads
from toolchain.models.preparing.resizing import with_new_resizes
from toolchain.models.preparing.slicing import with_slices_by_inputs
from toolchain.models.rewrites import RULES, operator_of
from toolchain.models.spec import TensorSpec
from toolchain.models.walk import CONTROL, all_graphs, all_nodes, all_tensors, opset_of

if TYPE_CHECKING:
    import tvm

DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})
"""Operator domains of the importer's table, which itself has names without domains."""

HINT_ONE = "check the shapes with `toolchain model inspect`, or export the network without this node"


def unsupported_operators(model: onnx.ModelProto, *, inside: bool = False) -> dict[str, list[onnx.NodeProto]]:
    """Return the nodes that cannot be imported, by operator, in model order.

    Parameters
    ----------
    inside
        Include nodes in the graphs of `If`, `Loop` and `Scan`, which may not be needed.
    """
    from toolchain import tvm_compat
    from toolchain.models.importing.converters import CONVERTERS

    opset = opset_of(model)
    found: dict[str, list[onnx.NodeProto]] = {}
    for node in all_nodes(model.graph) if inside else model.graph.node:
        converted = node.domain in DOMAINS and (
            node.op_type in CONTROL  # which folding writes flat, or says why it cannot
            or node.op_type in CONVERTERS
            or tvm_compat.onnx_converts(node.op_type, opset)
        )
        if converted or operator_of(node) in RULES:
            continue
        operator = node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"
        found.setdefault(operator, []).append(node)
    return found


def check_valid(model: onnx.ModelProto, origin: str) -> None:
    """Refuse a model that violates the ONNX standard.

    Raises
    ------
    UsageError
        The message has the first violation.
    """
    for kind, values in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        names = [value.name for value in values]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(
                f"{origin}: two of its {kind} are called {printable(repr(twice[0]))}", "export it again"
            )
    for tensor in all_tensors(model.graph):
        try:
            numpy_helper.to_array(tensor)
        except Exception as error:  # ValueError, KeyError and others
            raise UsageError(
                f"{origin}: tensor {tensor.name!r} is broken: {first_line(error)}", "export it again"
            ) from error
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


def import_module(model: onnx.ModelProto, origin: str) -> tvm.ir.IRModule:
    """Import a static, checked model to Relax; the i-th parameter of `main` is the i-th true input.

    Batch norms are folded into the convolutions before them; old resizes and slices are replaced.
    Indices and divisors are checked before they are used.

    Raises
    ------
    UsageError
        An operator is used in a way that cannot be imported; names the node.
    """
    from toolchain import tvm_compat
    from toolchain.models.importing.converters import CONVERTERS

    checked = with_slices_by_inputs(with_checks(model, origin))
    readable = with_explicit_pads(with_new_resizes(checked, origin))
    try:
        return tvm_compat.import_onnx(fold_batch_norms(readable).graph, opset_of(model), CONVERTERS)
    except tvm_compat.NodeImportError as error:
        raise UsageError(
            f"{origin}: unsupported use of {error.operator} (node {error.node!r}): {first_line(error)}",
            HINT_ONE,
        ) from error
    except Exception as error:  # any other error of TVM for a graph that onnx accepts
        raise UsageError(f"{origin}: cannot be imported: {first_line(error)}", HINT_ONE) from error


def output_specs(model: onnx.ModelProto, module: tvm.ir.IRModule, origin: str) -> tuple[TensorSpec, ...]:
    """Return the outputs in model order, with the shapes that Relax deduced.

    Raises
    ------
    UsageError
        The shape of an output depends on the data.
    """
    from tvm import relax, tirx

    returned = module["main"].ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    specs = []
    for value, type_ in zip(model.graph.output, types, strict=True):
        shape = getattr(type_, "shape", None)
        if shape is None or not all(isinstance(extent, tirx.IntImm) for extent in shape):
            raise UsageError(
                f"{origin}: the shape of output {value.name!r} depends on the data",
                "export the network without this output, or with a fixed shape",
            )
        specs.append(TensorSpec(value.name, tuple(int(extent) for extent in shape), str(type_.dtype)))
    return tuple(specs)
