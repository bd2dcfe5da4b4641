"""LSTM, GRU and RNN nodes to try, with weights drawn, many in one network."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
ACTIVATIONS = (
    "Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus", "Softsign",
    "Tanh", "ThresholdedRelu",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes
    ----------
    states
        The initial ones are inputs; else there are none.
    lengths
        Of the sequences, as a constant.
    given_lengths
        They are an input.
    given_weights
        W, R and B are inputs.
    """

    cell: str
    direction: str = "forward"
    steps: int = 4
    batch: int = 2
    size: int = 3
    hidden: int = 5
    bias: bool = True
    states: bool = True
    peepholes: bool = False
    lengths: tuple[int, ...] = ()
    given_lengths: bool = False
    given_weights: bool = False
    layout: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def add(self, graph: onnx.GraphProto, prefix: str) -> None:
        """Add the node, and what it reads and writes, to a graph."""
        directions, gates, hidden = self.directions, GATES[self.cell], self.hidden
        state = (directions, self.batch, hidden)
        x = (self.steps, self.batch, self.size)
        y = (self.steps, directions, self.batch, hidden)
        if self.layout:
            state = (self.batch, directions, hidden)
            x, y = (self.batch, self.steps, self.size), (self.batch, self.steps, directions, hidden)
        rng = np.random.default_rng(zlib.crc32(repr(self).encode()))

        def given(name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> str:
            graph.input.append(helper.make_tensor_value_info(prefix + name, kind, shape))
            return prefix + name

        def stored(name: str, array: np.ndarray) -> str:
            graph.initializer.append(numpy_helper.from_array(array, prefix + name))
            return prefix + name

        def weight(name: str, *shape: int) -> str:
            if self.given_weights:
                return given(name, shape)
            return stored(name, (rng.standard_normal(shape) * 0.3).astype(np.float32))

        inputs = [
            given("x", x),
            weight("w", directions, gates * hidden, self.size),
            weight("r", directions, gates * hidden, hidden),
            weight("b", directions, 2 * gates * hidden) if self.bias else "",
            "",
        ]
        if self.lengths:
            inputs[4] = stored("lengths", np.array(self.lengths, np.int32))
        elif self.given_lengths:
            inputs[4] = given("lengths", (self.batch,), TensorProto.INT32)
        inputs.append(given("h0", state) if self.states else "")
        outputs = [("y", y), ("h", state)]
        if self.cell == "LSTM":
            inputs.append(given("c0", state) if self.states else "")
            inputs.append(weight("p", directions, 3 * hidden) if self.peepholes else "")
            outputs.append(("c", state))
        attributes = {"hidden_size": hidden, "direction": self.direction, **self.attributes}
        if self.layout:
            attributes["layout"] = self.layout
        names = [prefix + name for name, _shape in outputs]
        graph.node.append(helper.make_node(self.cell, inputs, names, prefix + "node", **attributes))
        for name, shape in outputs:
            graph.output.append(helper.make_tensor_value_info(prefix + name, TensorProto.FLOAT, shape))


def together(cases: Sequence[Case]) -> onnx.ModelProto:
    """Return a network of all nodes; what is of the n-th begins with `nN_`."""
    graph = helper.make_graph([], "recurrent", [], [])
    for number, case in enumerate(cases):
        case.add(graph, f"n{number}_")
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


def table() -> list[Case]:
    """Return every cell with every option of the standard."""
    found: list[Case] = []
    for cell in GATES:
        for direction in ("forward", "reverse", "bidirectional"):
            count = FUNCTIONS[cell] * (2 if direction == "bidirectional" else 1)
            found += [
                Case(cell, direction),
                Case(cell, direction, steps=1, batch=1, bias=False, states=False),
                Case(cell, direction, batch=3, lengths=(4, 1, 3), states=False),
                Case(cell, direction, hidden=17, batch=3, attributes={"clip": 0.5}),
                Case(cell, direction, layout=1, lengths=(4, 4)),
                Case(cell, direction, given_weights=True, steps=2),
                Case(cell, direction, attributes=_activations(count, len(found))),
                Case(cell, direction, attributes=_activations(count, len(found) + count)),
            ]
    for direction in ("forward", "bidirectional"):
        found += [
            Case("LSTM", direction, peepholes=True),
            Case("LSTM", direction, peepholes=True, attributes={"clip": 0.7, "input_forget": 1}),
            Case("LSTM", direction, batch=1, attributes={"input_forget": 1}),
            Case("GRU", direction, attributes={"linear_before_reset": 1}),
            Case("GRU", direction, bias=False, attributes={"linear_before_reset": 1, "clip": 0.7}),
        ]
    return found


def _activations(count: int, first: int) -> dict[str, Any]:
    """Return so many activations, and an alpha and a beta for each that takes one."""
    names = [ACTIVATIONS[(first + number) % len(ACTIVATIONS)] for number in range(count)]
    alphas = {"Affine": 0.7, "Elu": 0.8, "HardSigmoid": 0.3, "LeakyRelu": 0.1, "ScaledTanh": 0.9}
    alphas["ThresholdedRelu"] = 0.05
    betas = {"Affine": 0.1, "HardSigmoid": 0.4, "ScaledTanh": 0.6}
    given = {
        "activations": names,
        "activation_alpha": [alphas[name] for name in names if name in alphas],
        "activation_beta": [betas[name] for name in names if name in betas],
    }
    return {name: values for name, values in given.items() if values}
