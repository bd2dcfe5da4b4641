"""Reads TensorIR of an unpacked fused function as a list of stages."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeAlias

import tvm
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from toolchain import tvm_compat
from toolchain.backends.packed.recognise.narrow import narrow_index, narrowed
from toolchain.errors import ToolchainError

Expr: TypeAlias = tvm.ir.Expr
Var: TypeAlias = tirx.Var


class UnreadableError(ToolchainError):
    """No generator can compute this function; it keeps its default schedule."""


@dataclass(frozen=True)
class StoredPart:
    """A value that a block stores: `buffer` at the block's indices, with `init` for a reduction."""

    buffer: tirx.Buffer
    value: Expr
    init: Expr | None

    @property
    def begin(self) -> Expr:
        """Initial value of the part's reduction; ValueError if it is not a reduction."""
        if self.init is None:
            raise ValueError(f"{self.buffer.name} is no reduction")
        return self.init


@dataclass(frozen=True)
class Stage:
    """One block: `buffer[indices] = value` over `axes`; a reduction if it has `init`.

    Attributes
    ----------
    reduce
        Whether each axis is reduced over.
    parts
        Stored values: one, or several that are reduced together (argmax: place and value).
    """

    name: str
    axes: tuple[Var, ...]
    extents: tuple[int, ...]
    reduce: tuple[bool, ...]
    indices: tuple[Expr, ...]
    parts: tuple[StoredPart, ...]

    @property
    def buffer(self) -> tirx.Buffer:
        """Buffer of the first part."""
        return self.parts[0].buffer

    @property
    def value(self) -> Expr:
        """Value of the first part."""
        return self.parts[0].value

    @property
    def init(self) -> Expr | None:
        """Initial value of the first part's reduction; None if it is not a reduction."""
        return self.parts[0].init

    def __reduce__(self) -> tuple[type[Stage], tuple[object, ...]]:
        """Pickle under a fixed name: the stage's own name does not affect what is computed."""
        return Stage, ("stage", *(getattr(self, field.name) for field in fields(self)[1:]))

    def part(self, buffer: tirx.Buffer) -> int | None:
        """Return the number of the part that is stored in a buffer; None if none is."""
        return next((place for place, part in enumerate(self.parts) if part.buffer.same_as(buffer)), None)

    def extent(self, axis: Expr) -> int:
        """Return the extent of an axis."""
        return self.extents[self.position(axis)]

    def position(self, axis: Expr) -> int:
        """Return the place of an axis among the stage's axes."""
        return next(place for place, own in enumerate(self.axes) if own.same_as(axis))


@dataclass(frozen=True)
class Read:
    """A function's parameters, outputs last, and its stages in order of computation."""

    params: tuple[tirx.Buffer, ...]
    stages: tuple[Stage, ...]

    def __reduce__(self) -> tuple[type[Read], tuple[object, ...]]:
        """Pickle without cached results."""
        return Read, (self.params, self.stages)

    def producer(self, buffer: tirx.Buffer) -> Stage | None:
        """Return the stage that writes a buffer; None for an input."""
        return next((stage for stage in self.stages if stage.part(buffer) is not None), None)

    def place(self, buffer: tirx.Buffer) -> int | None:
        """Return the index of a buffer among the parameters; None for another buffer."""
        return next((place for place, own in enumerate(self.params) if own.same_as(buffer)), None)

    def parameter(self, buffer: tirx.Buffer) -> int:
        """Return the index of a buffer among the parameters; the buffer must be one of them."""
        return next(place for place, own in enumerate(self.params) if own.same_as(buffer))

    @property
    def output(self) -> tirx.Buffer:
        """The last parameter."""
        return self.params[-1]

    @property
    def by_element(self) -> bool:
        """Whether each stage stores at its axes and reads only parameters and results of other stages."""
        return all(
            isinstance(index, tirx.Var | tirx.IntImm) for stage in self.stages for index in stage.indices
        ) and all(
            self.place(buffer) is not None or self.producer(buffer) is not None for buffer in self._readers
        )

    def readers(self, buffer: tirx.Buffer) -> list[Stage]:
        """Return the stages that read a buffer, one entry for every load."""
        return [stage for stage in self._readers.get(buffer, ()) if stage.part(buffer) is None]

    @cached_property
    def _readers(self) -> dict[tirx.Buffer, list[Stage]]:
        """Stages that read a buffer, one entry for every load; all are found in one pass over the stages."""
        found: dict[tirx.Buffer, list[Stage]] = {}
        for stage in self.stages:
            for part in stage.parts:
                for load in loads(part.value):
                    found.setdefault(load.source, []).append(stage)
        return found


def shape_of(buffer: tirx.Buffer) -> tuple[int, ...]:
    """Return the shape of a buffer."""
    return tuple(int(extent) for extent in buffer.shape)


def loads(value: Expr) -> list[TensorLoad]:
    """Return every load in an expression."""
    found: list[TensorLoad] = []
    tvm_compat.walked(value, [(TensorLoad, found.append)])
    return found


def read(func: tirx.PrimFunc) -> Read:
    """Return the stages of `func`, an unscheduled TensorIR function.

    Raises
    ------
    UnreadableError
        A block does more than store values, or a shape is unknown or empty.
    """
    blocks: list[s_tir.SBlock] = []  # collected first, because our errors would not pass through TVM's walk
    tvm_compat.walked(func.body, [(s_tir.SBlock, blocks.append)])
    params = tuple(func.params)
    if not all(isinstance(extent, tirx.IntImm) for param in params for extent in param.shape):
        raise UnreadableError("a shape is not known")
    if any(int(extent) == 0 for param in params for extent in param.shape):
        raise UnreadableError("a value is empty")
    return Read(params, tuple(_stage(block) for block in blocks if block.name_hint != "root"))


def _stage(block: s_tir.SBlock) -> Stage:
    if not all(isinstance(axis.dom.extent, tirx.IntImm) for axis in block.iter_vars):
        raise UnreadableError(f"block {block.name_hint} has an extent that is not known")
    axes = {axis.var: tirx.Var(axis.var.name, "int32") for axis in block.iter_vars}
    stores = _stores(block, block.body)
    inits = _stores(block, block.init) if block.init is not None else [None] * len(stores)
    if any(len(each.indices) != len(stores[0].indices) for each in stores):
        raise UnreadableError(f"block {block.name_hint} stores values of several shapes")
    return Stage(
        name=block.name_hint,
        axes=tuple(axes.values()),
        extents=tuple(int(axis.dom.extent) for axis in block.iter_vars),
        reduce=tuple(axis.iter_type != tirx.IterVar.DataPar for axis in block.iter_vars),
        indices=tuple(narrow_index(index, axes) for index in stores[0].indices),
        parts=tuple(
            StoredPart(store.buffer, narrowed(store.value, axes), None if init is None else init.value)
            for store, init in zip(stores, inits, strict=True)
        ),
    )


def _stores(block: s_tir.SBlock, body: tirx.Stmt) -> list[tirx.BufferStore]:
    """Return what a block's body stores, with named values (of argmax) substituted."""
    named: dict[Var, Expr] = {}
    found = []
    for each in body.seq if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(each, tirx.Bind):
            named[each.var] = each.value
        elif isinstance(each, tirx.BufferStore):
            value = tvm_compat.mutated(each.value, [(tirx.Var, lambda var, _: named.get(var, var))])
            found.append(tirx.BufferStore(each.buffer, value, list(each.indices)))
        else:
            raise UnreadableError(f"block {block.name_hint} does more than store values")
    return found
