"""The walk over a graph's nodes in their order, which folds each node whose inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from toolchain.arrays import Array
from toolchain.errors import UsageError
from toolchain.foreign import first_line
from toolchain.models.folding.constants import Constant, dense, size_of, static_shape
from toolchain.models.folding.evaluate import RANDOM, NodeEvaluator
from toolchain.models.folding.few_bits import is_of_few_bits
from toolchain.models.folding.infer import Inference
from toolchain.models.folding.misfits import check_fits, misfit, reason
from toolchain.models.folding.result import Problem
from toolchain.models.folding.scope import Scope
from toolchain.models.names import Names
from toolchain.models.walk import CONTROL, input_values, opset_of

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
                names[tensor.name] = self._made(tensor.name, scope)
                self._know(names[tensor.name], Constant(tensor))
            for sparse in graph.sparse_initializer:
                names[sparse.values.name] = self._made(sparse.values.name, scope)
                self._know(names[sparse.values.name], Constant(self._dense(sparse)))
            for node in graph.node:
                tensor = _constant(node)
                if tensor is not None:
                    name = node.output[0]
                    names[name] = self._made(name, scope)
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
                scope.names[name] = self._made(name, scope)
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
        """Return where the walk is, for `forget`."""
        return len(self.nodes)

    def forget(self, mark: int) -> None:
        """Remove the nodes written since `mark`; their types and values stay, but nothing reads them."""
        del self.nodes[mark:]
        for index in [index for index in self.problems if index >= mark]:
            del self.problems[index]

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the static shape of a tensor, if it is known."""
        return static_shape(self.types.get(name))

    def _made(self, name: str, scope: Scope) -> str:
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
            found = self._inference.outputs(node, self.types, self.values)
        except Exception as error:  # InferenceError, or whatever the C++ side throws at a broken node
            if not self.strict:
                return {}
            raise misfit(self.origin, node, self.types, reason(error)) from error
        if self.strict:
            check_fits(self.origin, node, self.types, found)
        return found

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
        wanted = sum(known) if len(known) == len(sizes) else 8 * made_of
        if wanted > ALWAYS and (wanted > GROWTH * made_of or wanted > self._budget):
            return False
        results = self._evaluator.run(node, inputs)
        if results is None:
            return False
        for name, array in zip(node.output, results, strict=True):
            if name and array is not None:
                self._know(name, Constant(array))
        self._budget -= wanted
        return True


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """Return the tensor of a `Constant`."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
        return None
    return next((each.t for each in node.attribute if each.name == "value"), None)
