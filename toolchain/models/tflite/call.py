"""An operator beside the tensors it reads and writes, for the rules that translate it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolchain.errors import UsageError
from toolchain.models.tflite.activations import FUSED, Bounds
from toolchain.models.tflite.graph import OnnxGraph
from toolchain.models.tflite.layout import ChannelOrder
from toolchain.models.tflite.network import TfliteOperator, TfliteTensor


@dataclass(frozen=True)
class OperatorCall:
    """An operator of the file, and the graph it is translated into."""

    graph: OnnxGraph
    operator: TfliteOperator

    @property
    def outputs(self) -> list[TfliteTensor]:
        """The tensors that it computes."""
        return [self.graph.tensor(index) for index in self.operator.outputs]

    @property
    def output(self) -> TfliteTensor:
        """The first tensor that it computes."""
        return self.graph.tensor(self.operator.outputs[0])

    @property
    def inputs(self) -> list[TfliteTensor]:
        """The tensors that it reads, without those that are left out."""
        return [self.graph.tensor(index) for index in self.operator.inputs if index is not None]

    def input(self, place: int) -> TfliteTensor:
        """Return the tensor at a place of its inputs.

        Raises
        ------
        ValueError
            It has no such input.
        """
        found = self.optional(place)
        if found is None:
            raise ValueError(f"input {place} is missing")
        return found

    def optional(self, place: int) -> TfliteTensor | None:
        """Return the tensor at a place of its inputs; None if it is left out."""
        given = self.operator.inputs
        index = given[place] if place < len(given) else None
        return None if index is None else self.graph.tensor(index)

    def option(self, name: str, default: Any) -> Any:
        """Return a field of its options; files without options mean the schema's default.

        Raises
        ------
        KeyError
            Its options are those of another kind of operator.
        """
        options = self.operator.options
        return options[name] if options else default

    def numbers(self, place: int, what: str) -> list[int]:
        """Return an input that must be a constant vector of integers; `what` names it in an error."""
        array = self.graph.array(self.input(place).index, what)
        if array.dtype.kind not in "iu":
            raise ValueError(f"{what} of {array.dtype}")
        return [int(number) for number in array.reshape(-1)]

    def bounds(self) -> Bounds:
        """Return the limits of its fused activation.

        Raises
        ------
        UsageError
            It has another activation.
        """
        fused = self.operator.options.get("fused_activation_function", 0)
        if fused not in FUSED:
            raise self.refusal(f"its fused activation function {fused}")
        return FUSED[fused]

    def layout(self) -> ChannelOrder:
        """Return `FIRST` if a value is only there, and all can be; else `LAST`."""
        tensors = [tensor for tensor in self.inputs if tensor.index not in self.graph.constants]
        if not all(tensor.rank == 4 for tensor in tensors) or self.output.rank != 4:
            return ChannelOrder.LAST
        found = {self.graph.layout_of(tensor.index) for tensor in tensors}
        return ChannelOrder.FIRST if ChannelOrder.FIRST in found else ChannelOrder.LAST

    def refusal(self, what: str) -> UsageError:
        """Return the error that something of this operator is not supported."""
        return UsageError(
            f"{self.graph.origin}: {self.operator}: {what} is not supported",
            "convert the network without it; docs/howto/other-peoples-files.md has the table of operators",
        )


Rule = Callable[[OperatorCall], None]
"""Translates one operator."""
