"""What an unpacked fused function computes: its stages, read from TensorIR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from toolchain.errors import ToolchainError

Expr: TypeAlias = tvm.ir.Expr
Var: TypeAlias = tirx.Var


class UnreadableError(ToolchainError):
    """A function is none that the generators know; it keeps its default schedule."""


@dataclass(frozen=True)
class Stage:
    """One block: `buffer[indices] = value` over `axes`; with `init` a reduction.

    Attributes
    ----------
    reduce
        Per axis, whether it is reduced over.
    """

    name: str
    axes: tuple[Var, ...]
    extents: tuple[int, ...]
    reduce: tuple[bool, ...]
    buffer: tirx.Buffer
    indices: tuple[Expr, ...]
    value: Expr
    init: Expr | None

    def extent(self, axis: Var) -> int:
        """Return the extent of one of the axes."""
        return self.extents[self.position(axis)]

    def position(self, axis: Var) -> int:
        """Return the place of one of the axes."""
        return next(place for place, own in enumerate(self.axes) if own.same_as(axis))


@dataclass(frozen=True)
class Read:
    """A function's parameters, outputs last, and its stages in the order they are computed."""

    params: tuple[tirx.Buffer, ...]
    stages: tuple[Stage, ...]

    def producer(self, buffer: tirx.Buffer) -> Stage | None:
        """Return the stage that writes a buffer, None for an input."""
        return next((stage for stage in self.stages if stage.buffer.same_as(buffer)), None)

    def place(self, buffer: tirx.Buffer) -> int | None:
        """Return which parameter a buffer is, None where it is none."""
        return next((place for place, own in enumerate(self.params) if own.same_as(buffer)), None)

    def parameter(self, buffer: tirx.Buffer) -> int:
        """Return which parameter a buffer is; it must be one."""
        return next(place for place, own in enumerate(self.params) if own.same_as(buffer))

    @property
    def output(self) -> tirx.Buffer:
        """The last parameter."""
        return self.params[-1]

    def readers(self, buffer: tirx.Buffer) -> list[Stage]:
        """Return the stages that read a buffer, once for every place where they do."""
        return [
            stage
            for stage in self.stages
            for load in loads(stage.value)
            if load.source.same_as(buffer) and not stage.buffer.same_as(buffer)
        ]


def shape_of(buffer: tirx.Buffer) -> tuple[int, ...]:
    """Return a buffer's extents."""
    return tuple(int(extent) for extent in buffer.shape)


def loads(value: Expr) -> list[TensorLoad]:
    """Return every load in an expression."""
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(value, [(TensorLoad, found.append)])
    return found


def read(func: tirx.PrimFunc) -> Read:
    """Return what `func`, unscheduled TensorIR, computes.

    Raises
    ------
    UnreadableError
        A block does more than store one value, or a shape or an index is not known now.
    """
    # Relax functions index in int64, built loops in int32, and substitution does not promote.
    try:
        narrow = tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": func}))["main"]
    except (ValueError, TypeError, RuntimeError) as error:
        raise UnreadableError(f"its indices do not fit 32 bits: {error}") from error
    blocks: list[s_tir.SBlock] = []  # an error of ours would not come through the walk as it is
    tvm_ffi.structural_walk(narrow.body, [(s_tir.SBlock, blocks.append)])
    stages = [_stage(block) for block in blocks if block.name_hint != "root"]
    params = tuple(narrow.params)
    if not all(isinstance(extent, tirx.IntImm) for param in params for extent in param.shape):
        raise UnreadableError("a shape is not known")
    return Read(params, tuple(stages))


def _stage(block: s_tir.SBlock) -> Stage:
    body = block.body
    if not isinstance(body, tirx.BufferStore):
        raise UnreadableError(f"block {block.name_hint} does more than store a value")
    if not all(isinstance(axis.dom.extent, tirx.IntImm) for axis in block.iter_vars):
        raise UnreadableError(f"block {block.name_hint} has an extent that is not known")
    return Stage(
        name=block.name_hint,
        axes=tuple(axis.var for axis in block.iter_vars),
        extents=tuple(int(axis.dom.extent) for axis in block.iter_vars),
        reduce=tuple(axis.iter_type != tirx.IterVar.DataPar for axis in block.iter_vars),
        buffer=body.buffer,
        indices=tuple(body.indices),
        value=body.value,
        init=None if block.init is None else block.init.value,
    )
