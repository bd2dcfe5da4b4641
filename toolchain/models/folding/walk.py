"""The walk over a graph's nodes in their order, which folds each node whose inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, shape_inference

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import first_line
from toolchain.models.folding.constants import (
    SMALL,
    Constant,
    check_fits,
    dense,
    misfit,
    reason,
    size_of,
    static_shape,
)
from toolchain.models.folding.evaluate import RANDOM, NodeEvaluator, is_of_few_bits
from toolchain.models.folding.folded import Problem, Scope
from toolchain.models.onnx_graph import CONTROL, Names, input_values, opset_of

# Infers the types of a node's outputs from those of its inputs.

_BODIES = "toolchain.bodies"
"""Domain of the temporary function that holds an operator's definition for inference."""


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
        """Return the types of a node's outputs, as far as they follow from its inputs.

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
        types_known: dict[str, onnx.TypeProto] = {}
        if schema is not None:
            types_known = shape_inference.infer_node_outputs(
                schema, node, given, known, opset_imports=self._opsets, ir_version=self._ir
            )
        if schema is not None and not schema.has_type_and_shape_inference_function:
            types_known |= self._by_body(schema, node, given)
        open_ones = [name for name in node.output if name and static_shape(types_known.get(name)) is None]
        if open_ones and all(static_shape(type_) is not None for type_ in given.values()):
            second = self._evaluator.types(node, given, known)
            types_known |= {name: second[name] for name in open_ones if name in second}
        return types_known

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
            value.name: value.type
            for value in shape_inference.infer_shapes(model, data_prop=True).graph.output
            if value.HasField("type")
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
        fitting = [opset for opset in schema.context_dependent_function_opset_versions if opset <= version]
        raw = schema.get_context_dependent_function_with_opset_version(
            max(fitting), node.SerializeToString(), [type_.SerializeToString() for type_ in types]
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


ALWAYS = 1 << 16
"""Size in bytes up to which a computed constant is always kept."""

GROWTH = 4
"""Largest ratio of a larger constant's size to that of its inputs: int8 weights may become float32."""

MOST = 1 << 28
"""Largest total size in bytes of computed constants, in addition to the file's tensors: 256 MiB."""


# Folds a node of one type and returns True; or returns False to have it treated as any other.
Special = Callable[["Walk", onnx.NodeProto, Scope], bool]


class Walk:
    """The state of the walk: types and values of tensors by their names in the folded graph.

    Parameters
    ----------
    model
        The model, not changed; its inputs must be static for complete folding.
    origin
        Name of the source, for messages.
    strict
        Refuse shapes that don't fit together, instead of leaving them open.
    special
        Functions for special folding, by operator.
    kept
        Operators that are never folded.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        origin: str,
        strict: bool,
        special: Mapping[str, Special],
        kept: frozenset[str],
    ) -> None:
        self.model = model
        self.origin = origin
        self.strict = strict
        self.opset = opset_of(model)
        self.names = Names()
        self.types: dict[str, onnx.TypeProto] = {}
        self.values: dict[str, Constant] = {}
        self.sequences: dict[str, list[str]] = {}  # sequence -> names of its tensors
        self.nodes: list[onnx.NodeProto] = []
        self.problems: dict[int, Problem] = {}  # by the position of the node
        self.unrolled = 0
        self._evaluator = NodeEvaluator(model)
        self._inference = Inference(model, self._evaluator)
        self._stored: dict[int, tuple[onnx.GraphProto, dict[str, str]]] = {}
        self._budget = MOST
        self._special = special
        self._never = RANDOM | CONTROL | kept

    def whole(self, frozen: Mapping[str, Array]) -> Scope:
        """Walk over the whole graph with the given inputs as constants; return its names."""
        graph = self.model.graph
        for value in (*graph.input, *graph.output, *graph.initializer):
            self.names.take(value.name)
        for sparse in graph.sparse_initializer:
            self.names.take(sparse.values.name)
        for node in graph.node:
            for name in node.output:
                self.names.take(name)
        for value in input_values(graph):
            self.types[value.name] = value.type
        for name, array in frozen.items():
            self._know(name, Constant(array))
        scope = Scope()
        self.graph(graph, scope)
        return scope

    def graph(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Walk over a graph and add its nodes to the folded graph."""
        self.store(graph, scope)
        for node in graph.node:
            self.node(node, scope)

    def store(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Take over the stored tensors of a graph, once even if the graph is walked several times."""
        if id(graph) not in self._stored:
            names = {}
            for tensor in graph.initializer:
                names[tensor.name] = self._unused_name(tensor.name, scope)
                self._know(names[tensor.name], Constant(tensor))
            for sparse in graph.sparse_initializer:
                names[sparse.values.name] = self._unused_name(sparse.values.name, scope)
                self._know(names[sparse.values.name], Constant(self._dense(sparse)))
            for node in graph.node:
                tensor = _constant(node)
                if tensor is not None:
                    name = node.output[0]
                    names[name] = self._unused_name(name, scope)
                    self._know(names[name], Constant(tensor))
            self._stored[id(graph)] = (
                graph,
                names,
            )  # keeps the graph alive, and so its id
        scope.names.update(self._stored[id(graph)][1])

    def node(self, node: onnx.NodeProto, scope: Scope) -> None:
        """Fold one node, or write it."""
        if _constant(node) is not None:
            return
        special = self._special.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if special is None or not special(self, node, scope):
            self.plain(node, scope)

    def plain(self, node: onnx.NodeProto, scope: Scope, reason: str | None = None) -> None:
        """Compute a node whose inputs are known; write any other node with the types of its outputs.

        Parameters
        ----------
        reason
            Why it cannot be compiled, if known already.
        """
        written = onnx.NodeProto()
        written.CopyFrom(node)
        for index, name in enumerate(node.input):
            if name:
                written.input[index] = scope.find(name)
        for index, name in enumerate(node.output):
            if name:
                scope.names[name] = self._unused_name(name, scope)
                written.output[index] = scope.names[name]
        types = self._infer(written)
        if reason is None and self._compute(written, types):
            return
        if reason is not None:
            self.problems[len(self.nodes)] = Problem(written, reason)
        self.types.update({name: types[name] for name in written.output if name in types})
        self.nodes.append(written)

    def emit(self, operator: str, inputs: Sequence[str], like: str, **attributes: Any) -> str:
        """Write (or compute) a new node on names of the folded graph; return its output's name."""
        output = self.names.free(like)
        node = helper.make_node(operator, list(inputs), [output], output, **attributes)
        self.plain(node, Scope())
        return output

    def constant(self, array: Any, like: str) -> str:
        """Store a value; return its name."""
        name = self.names.free(like)
        self._know(name, Constant(np.asarray(array)))
        return name

    def mark(self) -> int:
        """Return the current position of the walk, for `forget`."""
        return len(self.nodes)

    def forget(self, mark: int) -> None:
        """Remove the nodes written since `mark`; their types and values stay, but nothing reads them."""
        del self.nodes[mark:]
        for index in [index for index in self.problems if index >= mark]:
            del self.problems[index]

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the static shape of a tensor, if it is known."""
        return static_shape(self.types.get(name))

    def _unused_name(self, name: str, scope: Scope) -> str:
        """Return a tensor's name in the folded graph: its own if that is unused, else a new one."""
        return name if scope.outer is None else self.names.free(name)

    def _know(self, name: str, constant: Constant) -> None:
        self.values[name] = constant
        self.types[name] = constant.type

    def _dense(self, sparse: onnx.SparseTensorProto) -> Array:
        """Return a sparse tensor with its zeros."""
        name = sparse.values.name
        try:
            return dense(sparse)
        except Exception as error:  # ValueError, IndexError and others
            raise UsageError(
                f"{self.origin}: sparse tensor {name!r} is broken: {first_line(error)}", "export it again"
            ) from error

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        try:
            inferred = self._inference.outputs(node, self.types, self.values)
        except Exception as error:  # InferenceError, or whatever the C++ side throws at a broken node
            if not self.strict:
                return {}
            raise misfit(self.origin, node, self.types, reason(error)) from error
        if self.strict:
            check_fits(self.origin, node, self.types, inferred)
        return inferred

    def _compute(self, node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto]) -> bool:
        inputs = [self.values.get(name) if name else None for name in node.input]
        if (node.op_type in self._never and not is_of_few_bits(inputs[0] if inputs else None)) or any(
            value is None and name for value, name in zip(inputs, node.input, strict=True)
        ):
            return False
        made_of = sum(value.nbytes for value in inputs if value is not None)
        sizes = [size_of(types.get(name)) for name in node.output if name]
        known = [size for size in sizes if size is not None]
        # If a size is unknown (NonZero of a constant), the result is about as large as the input.
        bytes_needed = sum(known) if len(known) == len(sizes) else 8 * made_of
        if bytes_needed > ALWAYS and (bytes_needed > GROWTH * made_of or bytes_needed > self._budget):
            return False
        results = self._evaluator.run(node, inputs)
        if results is None:
            return False
        for name, array in zip(node.output, results, strict=True):
            if name and array is not None:
                self._know(name, Constant(array))
        self._budget -= bytes_needed
        return True


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Return the tensor of a `Constant`."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    return next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
