"""The work item of an implicit GEMM: its place in its group, and who adds up its sums."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tvm import tirx

from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.read import Expr


@dataclass(frozen=True)
class WorkItem:
    """A work item: its number in the group, and the group's shared memory."""

    nest: Nest
    choice: ImplicitGemmChoice
    number: Expr
    shared: tirx.Buffer

    @property
    def lanes(self) -> int:
        """Channels of a block."""
        return self.nest.machine.lanes

    @property
    def own(self) -> int:
        """Units of a step that an item adds up."""
        return self.choice.depth // self.choice.slices


class ItemSums(Protocol):
    """The sums of an item."""

    def loops(self, steps: int) -> AbstractContextManager[Sequence[Expr]]:
        """Emit a loop over steps around `add`; yield the step."""

    def add(self, weights: Expr, values: Expr) -> None:
        """Emit the products of this item's units of a step, whose weights and values begin there."""

    def leave(self) -> None:
        """Emit stores of the sums to shared memory: (slices, output blocks, places, lanes)."""
