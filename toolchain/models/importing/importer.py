"""Imports an ONNX graph as a Relax module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
from onnx import helper

from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.bounds.insert import with_checks
from toolchain.models.folding.misfits import reason, shown_inputs
from toolchain.models.importing.operators import MICROSOFT, OF_MICROSOFT, OPERATORS
from toolchain.models.preparing.batch_norms import fold_batch_norms
from toolchain.models.preparing.padding import with_explicit_pads
from toolchain.models.preparing.resizing import with_new_resizes
from toolchain.models.preparing.slicing import with_slices_by_inputs
from toolchain.models.rewrites import RULES, operator_of
from toolchain.models.spec import TensorSpec
from toolchain.models.walk import CONTROL, all_nodes, node_name, opset_of

if TYPE_CHECKING:
    import tvm

HINT_ONE = "check the shapes with `toolchain model inspect`, or export the network without this node"


def unsupported_operators(model: onnx.ModelProto, *, inside: bool = False) -> dict[str, list[onnx.NodeProto]]:
    """Return the nodes that cannot be imported, by operator, in model order.

    Parameters
    ----------
    inside
        Include nodes in the graphs of `If`, `Loop` and `Scan`, which may not be needed.
    """
    found: dict[str, list[onnx.NodeProto]] = {}
    for node in all_nodes(model.graph) if inside else model.graph.node:
        known = {
            "": node.op_type in CONTROL  # which folding writes flat, or says why it cannot
            or node.op_type in OPERATORS,
            MICROSOFT: node.op_type in OF_MICROSOFT,
        }
        domain = "" if node.domain == "ai.onnx" else node.domain
        if not known.get(domain, False) and operator_of(node) not in RULES:
            found.setdefault(operator_of(node), []).append(node)
    return found


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
        node = next((each for each in readable.graph.node if node_name(each) == error.node), onnx.NodeProto())
        given = shown_inputs(node, _types(readable.graph))
        what = f"unsupported use of {error.operator} (node {printable(repr(error.node))}){given}"
        raise UsageError(f"{origin}: {what}: {reason(error)}", HINT_ONE) from error
    except Exception as error:  # any other error of TVM for a graph that onnx accepts
        raise UsageError(f"{origin}: cannot be imported: {reason(error)}", HINT_ONE) from error


def _types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    types = {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return types


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
