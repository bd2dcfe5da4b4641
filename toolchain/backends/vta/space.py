"""The search space of one convolution: all legal tilings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from math import log2

from toolchain.backends.vta.cut import Cut
from toolchain.backends.vta.kinds import KINDS
from toolchain.backends.vta.task import VtaTask, parameters_of
from toolchain.errors import ToolchainError
from toolchain.records.store import Usable, anything
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.finite import Decisions, FiniteSpace
from toolchain.vta.compiling.estimate import estimated_cycles, legal_knobs
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.layers.knobs import Knobs, read_knobs
from toolchain.vta.layers.layer import ConvShape, shape_of


class VtaSpace(FiniteSpace[Knobs]):
    """The cuts of one task; see `tasks.space.Space`. They leave space for a residual if possible.

    Parameters
    ----------
    driver
        Driver whose runs boards measure; see `Cut`.
    """

    kinds: tuple[str, ...] = KINDS
    excluded = ""

    def __init__(self, task: VtaTask, config: VtaConfig, driver: str = "") -> None:
        self.task, self.config, self._driver = task, config, driver
        self.usable: Usable = anything
        self.allowed: Usable = anything

    @cached_property
    def points(self) -> list[Knobs]:
        """All legal cuts, the best by the estimate first."""
        found = legal_knobs(self.task.shape, self.config, residual=self.residual)
        if not found:
            raise ToolchainError(
                f"no way to cut convolution {self.task.shape} fits configuration {self.config.bitstream}",
                "end the region before it with --stop-pack",
            )
        return found

    @cached_property
    def residual(self) -> bool:
        """Whether cuts leave space for a residual, so that one record serves layers with and without one."""
        return bool(legal_knobs(self.task.shape, self.config, residual=True))

    def legal(self, point: Knobs) -> bool:
        """Return whether a cut fits the configuration."""
        return not Tiling(self.task.shape, point, self.config, self.residual).problem()

    def decisions(self, point: Knobs) -> Decisions:
        """Return the knobs by name."""
        return point.decisions()

    def features(self, point: Knobs) -> Sequence[float]:
        """Return the knobs, the shape, and the cut's use of the chip's buffers and of the memory bus."""
        return _features(self.task.shape, point, self.config)

    def foreign_features(self, entry: Entry, definition: str) -> Sequence[float]:
        """Return the features of a point of another task."""
        return _features(shape_of(definition), read_knobs(entry.payload), self.config)

    def adapted(self, entry: Entry, definition: str) -> Knobs | None:
        """Return the point most like a point of another task."""
        del definition
        return self.nearest(read_knobs(entry.payload).decisions())

    def rule(self, point: Knobs) -> str:
        """Return "vta", the rule of all cuts."""
        del point
        return "vta"

    def entry(self, point: Knobs) -> Entry:
        """Return the knobs in the form of a record."""
        text = str(point)
        return Entry(KINDS[0], text, hashlib.sha256(f"{KINDS[0]} {text}".encode()).hexdigest())

    def read(self, entry: Entry, definition: str) -> Knobs:
        """Return the knobs of a record.

        Raises
        ------
        ToolchainError
            The payload is not a list of knobs.
        """
        del definition
        return read_knobs(entry.payload)

    def candidate(self, point: Knobs) -> Candidate:
        """Return a candidate with the cut."""
        shape = self.task.shape
        cut = Cut(shape, point, self.config, self._driver)
        return Candidate(self.entry(point), cut, parameters_of(shape, self.config.block), 1)


def _features(shape: ConvShape, knobs: Knobs, config: VtaConfig) -> list[float]:
    cut = Tiling(shape, knobs, config, residual=True)
    numbers = [*knobs.decisions().values(), shape.oh, shape.ow, cut.ic_blocks, cut.oc_blocks, shape.taps]
    needs = [cut.inp_elements, cut.wgt_elements, cut.vectors, cut.micro_ops, cut.chunks]
    return [log2(1 + each) for each in (*numbers, *needs, estimated_cycles(cut))]
