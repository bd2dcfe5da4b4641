"""The parameters of an LSTM, GRU or RNN, which its function carries in an attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

ATTRIBUTE = "toolchain.recurrence"
"""Name of the PrimFunc attribute with the Recurrence."""

Cell = Literal["LSTM", "GRU", "RNN"]

GATES: dict[Cell, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""Operator -> number of gates, in ONNX's order: input, output, forget, cell; update, reset, hidden; one."""

UNIT = 16
"""Units are padded to a multiple of this: a whole vector on every core."""


@dataclass(frozen=True)
class Activation:
    """An activation function of a recurrent cell: its ONNX name in lower case, and its parameters."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Recurrence:
    """The parameters of one recurrent node, without the products of its inputs with W.

    Attributes
    ----------
    reverse
        Per direction, whether it runs backwards in time.
    activations
        Activations per direction.
    clip
        Bound of the arguments of activations; None for no bound.
    coupled
        For an LSTM: the forget gate is one minus the input gate (`input_forget`).
    reset_after
        For a GRU: the reset gate applies to the product, not to the state (`linear_before_reset`).
    peepholes
        For an LSTM: the gates read the cell state.
    lengths
        Every sequence of the batch has its own number of steps.
    rounded
        For an LSTM: its state is rounded to 8 bits before it is multiplied with the integers R, and the
        products are scaled by the step size and `factors`.
    """

    cell: Cell
    steps: int
    batch: int
    hidden: int
    reverse: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    clip: float | None = None
    coupled: bool = False
    reset_after: bool = False
    peepholes: bool = False
    lengths: bool = False
    rounded: bool = False

    @property
    def gates(self) -> int:
        """Number of gates of a unit."""
        return GATES[self.cell]

    @property
    def padded(self) -> int:
        """Number of units, padded to whole vectors."""
        return -(-self.hidden // UNIT) * UNIT

    @property
    def directions(self) -> int:
        """Number of directions, one or two."""
        return len(self.reverse)

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """The function's inputs and their shapes, in their order.

        `x`: products of the inputs of all steps, bias added; `r`: what the state is multiplied by.
        """
        state = (self.directions, self.batch, self.hidden)
        shapes: dict[str, tuple[int, ...]] = {
            "x": (self.steps * self.batch, self.directions * self.gates * self.padded),
            "r": (self.directions, self.hidden, self.gates, self.padded),
            "h0": state,
        }
        if self.cell == "LSTM":
            shapes["c0"] = state
        if self.peepholes:
            shapes["peepholes"] = (self.directions, 3, self.padded)
        if self.reset_after:
            shapes["bias"] = (self.directions, self.padded)
        if self.rounded:
            shapes["factors"] = (self.directions, self.gates, self.padded)
        if self.lengths:
            shapes["lengths"] = (self.batch,)
        return shapes

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """The function's outputs and their shapes, in their order."""
        state = (self.directions, self.batch, self.hidden)
        shapes = {"y": (self.steps, self.directions, self.batch, self.hidden), "h": state}
        return {**shapes, "c": state} if self.cell == "LSTM" else shapes

    def to_json(self) -> str:
        """Return the attribute for a function."""
        return _ADAPTER.dump_json(self).decode()


_ADAPTER = TypeAdapter(Recurrence)


def recurrence_from(attribute: str) -> Recurrence:
    """Parse the attribute of a function."""
    return _ADAPTER.validate_json(attribute)
