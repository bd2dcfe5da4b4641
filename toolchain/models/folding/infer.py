"""Infers the types of a node's outputs from those of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx
from onnx import defs, shape_inference

from toolchain.models.folding.constants import SMALL, Constant, static_shape
from toolchain.models.folding.evaluate import NodeEvaluator


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
        open_ones = [name for name in node.output if name and static_shape(found.get(name)) is None]
        if open_ones and all(static_shape(each) is not None for each in given.values()):
            second = self._evaluator.types(node, given, known)
            found |= {name: second[name] for name in open_ones if name in second}
        return found


def _standard(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


@cache
def _schema(operator: str, domain: str, version: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(operator, version, domain)
    except defs.SchemaError:
        return None
