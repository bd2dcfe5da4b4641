"""The search space of one convolution: all legal tilings."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import TYPE_CHECKING

from toolchain.arrays import Array
from toolchain.errors import ToolchainError
from toolchain.records.store import Usable, anything
from toolchain.tasks.candidate import Candidate, Entry, ModelledRun, Parameter
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Decisions, FiniteSpace
from toolchain.vta.compiling.blob import blob_of
from toolchain.vta.compiling.estimate import estimated_cycles, legal_knobs
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design import VtaConfig
from toolchain.vta.dumps.convolution import program_of
from toolchain.vta.layers.layer import (
    ConvShape,
    definition_of,
    expected,
    pack_activation,
    shape_of,
    unpack_activation,
)
from toolchain.vta.layers.region import Knobs, Region, read_knobs, seeded_layer

if TYPE_CHECKING:
    import tvm

    from toolchain.backends.vta.in_session import UploadedProgram


# The code of a candidate: a convolution, cut in one way, as a program of its own.

SEED = 0
"""Seed of the weights, which do not affect how well a cut performs."""


@dataclass(frozen=True)
class Cut:
    """A convolution and its cut; see `tasks.upload.FileCode`. Neither compiler nor linker is used.

    Attributes
    ----------
    driver
        Driver whose runs boards measure: `sim` or `pynq`; empty for the board's hardware.
    """

    shape: ConvShape
    knobs: Knobs
    config: VtaConfig
    driver: str = ""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Return the program as one block of bytes.

        Raises
        ------
        ToolchainError
            The cut does not fit the design.
        """
        del symbol
        return (blob_of(program_of(self.shape, self.config, self.knobs, SEED)),)

    def open(self, session: tvm.rpc.RPCSession, name: str, board: str) -> UploadedProgram:
        """Return the program, ready to run in a session with the driver."""
        from toolchain.backends.vta.in_session import UploadedProgram

        return UploadedProgram(session, name, board, self.driver, self.config)

    def modelled_ms(self, device: str, run: ModelledRun | None) -> float | None:
        """Return what the cycle model says of a run, in ms; None for a run that a clock timed."""
        from toolchain.backends.vta.in_session import modelled_ms

        return modelled_ms(device, run, self.driver, self.config)


# Tunable convolutions of a VTA.


@dataclass(frozen=True)
class VtaTask(Task):
    """One shape of convolutions in regions; how fast a cut is does not depend on the weights."""

    shape: ConvShape

    @property
    def definition(self) -> str:
        """Text of the shape, which `vta.layers.shape_of` parses."""
        return definition_of(self.shape)


def tasks_of(regions: Iterable[Region]) -> list[VtaTask]:
    """Return the distinct convolutions, the heaviest (weight x FLOPs) first."""
    counted = Counter(each.layer.shape for region in regions for each in region.layers)
    tasks = [_task(shape, count) for shape, count in counted.items()]
    return sorted(tasks, key=lambda task: -task.weight * task.flops)


def _task(shape: ConvShape, count: int) -> VtaTask:
    workload = hashlib.sha256(definition_of(shape).encode()).hexdigest()
    return VtaTask(
        workload=workload,
        name=f"conv2d_{shape.h}x{shape.w}_{shape.ic}_{shape.oc}_{shape.kh}x{shape.kw}_s{shape.sh}",
        weight=count,
        flops=2 * shape.macs,
        shapes=(
            (1, shape.ic, shape.h, shape.w),
            (shape.oc, shape.ic, shape.kh, shape.kw),
            (1, shape.oc, shape.oh, shape.ow),
        ),
        shape=shape,
    )


@dataclass(frozen=True)
class Blocked:
    """Activations in blocks of channels, as an accelerator has them; see `tasks.parameter.MemoryLayout`."""

    block: int

    def pack(self, value: Array) -> Array:
        """Convert [1, channels, h, w] to [blocks, h, w, block]."""
        return pack_activation(value[0], self.block)

    def unpack(self, value: Array, logical: Sequence[int]) -> Array:
        """Convert the result of `pack` back to the logical shape."""
        return unpack_activation(value, logical[1])[None]


def parameters_of(shape: ConvShape, block: int) -> tuple[Parameter, Parameter]:
    """Return the input and the output of a convolution's program."""
    layout = Blocked(block)
    return (
        Parameter((1, shape.ic, shape.h, shape.w), "int8", layout),
        Parameter((1, shape.oc, shape.oh, shape.ow), "int8", layout),
    )


@dataclass(frozen=True)
class VtaReference:
    """Computes a task with integers in numpy, with seeded weights; see `tasks.reference.TaskReference`."""

    shape: ConvShape

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameter of the image."""
        return (Parameter((1, self.shape.ic, self.shape.h, self.shape.w), "int8"),)

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return the outputs for several images."""
        layer = seeded_layer(self.shape, SEED)
        return [[expected(layer, image[0])[None]] for (image,) in draws]


# The kinds of records of a VTA.

KINDS = ("vta",)
"""Kind of a record whose payload is `Knobs`."""


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
