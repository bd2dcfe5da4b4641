"""Infers the types of a node's outputs from those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import onnx
from onnx import defs, helper, shape_inference

from toolchain.models.folding.constants import SMALL, Constant, static_shape
from toolchain.models.folding.evaluate import NodeEvaluator

_BODIES = "toolchain.bodies"
"""Domain of an operator whose definition is in the model."""


class Inference:
    """Infers types node by node, so that each node sees the results of earlier folding.

    Parameters
    ----------
    model
        The model whose operator sets define the nodes.
    evaluator
        Infers types of operators unknown to onnx.
    """

    def __init__(self, model: onnx.ModelProto, evaluator: NodeEvaluator) -> None:
        self._opsets = list(model.opset_import)
        self._versions = {_standard(opset.domain): opset.version for opset in self._opsets}
        self._ir = model.ir_version
        self._evaluator = evaluator

    def outputs(
        self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], values: Mapping[str, Constant]
    ) -> dict[str, onnx.TypeProto]:
        """Return the types of the outputs, as far as they follow.

        Raises
        ------
        onnx.shape_inference.InferenceError
            The inputs don't fit the operator.
        """
        names = [name for name in node.input if name]
        if not all(name in types for name in names):
            return {}
        given = {name: types[name] for name in names}
        small = [name for name in names if name in values and values[name].nbytes <= SMALL]
        known = {name: values[name].tensor for name in small}
        schema = _schema(node.op_type, _standard(node.domain), self._versions.get(_standard(node.domain), 0))
        found: dict[str, onnx.TypeProto] = {}
        if schema is not None:
            found = shape_inference.infer_node_outputs(
                schema, node, given, known, opset_imports=self._opsets, ir_version=self._ir
            )
        if schema is not None and not schema.has_type_and_shape_inference_function:
            found |= self._by_body(schema, node, given)
        open_ones = [name for name in node.output if name and static_shape(found.get(name)) is None]
        if open_ones and all(static_shape(each) is not None for each in given.values()):
            second = self._evaluator.types(node, given, known)
            found |= {name: second[name] for name in open_ones if name in second}
        return found

    def _by_body(
        self, schema: defs.OpSchema, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]
    ) -> dict[str, onnx.TypeProto]:
        """Return the types that follow from an operator's definition in terms of others.

        Of operators such as `GreaterOrEqual` of set 12, onnx itself infers the element type alone, and
        onnxruntime takes the result for a scalar.
        """
        version = self._versions[schema.domain]
        body = function_body(
            schema, node, [types.get(name, onnx.TypeProto()) for name in node.input], version
        )
        if body is None:
            return {}
        call = onnx.NodeProto()
        call.CopyFrom(node)
        call.domain = body.domain = _BODIES
        graph = helper.make_graph(
            [call],
            "body",
            [helper.make_value_info(name, types[name]) for name in dict.fromkeys(node.input) if name],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        opsets = [helper.make_opsetid(schema.domain, version), helper.make_opsetid(_BODIES, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=self._ir, functions=[body])
        return {
            each.name: each.type
            for each in shape_inference.infer_shapes(model, data_prop=True).graph.output
            if each.HasField("type")
        }


def function_body(
    schema: defs.OpSchema, node: onnx.NodeProto, types: Sequence[onnx.TypeProto], version: int
) -> onnx.FunctionProto | None:
    """Return the definition of an operator in terms of others; None if it has none.

    Parameters
    ----------
    types
        Of the node's inputs, on which some definitions depend.
    version
        The operator set in which the definition is written.
    """
    if schema.has_function:
        raw = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        fitting = [each for each in schema.context_dependent_function_opset_versions if each <= version]
        raw = schema.get_context_dependent_function_with_opset_version(
            max(fitting), node.SerializeToString(), [each.SerializeToString() for each in types]
        )
    else:
        return None
    return onnx.FunctionProto.FromString(raw) if raw else None


def _standard(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


@cache
def _schema(operator: str, domain: str, version: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(operator, version, domain)
    except defs.SchemaError:
        return None
