"""Moves parts of a stage's value to stages of their own, which store them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import tvm_ffi
from tvm import tirx

from toolchain.backends.packed.recognise.read import Expr, Read, Stage, StoredPart, Var


@dataclass
class Extraction:
    """The stages that store parts of the value of `stage`, in the order in which they were made."""

    stage: Stage
    stages: list[Stage] = field(default_factory=list)

    def load(self, value: Expr, axes: Sequence[Var], extents: Sequence[int], at: Sequence[Expr]) -> Expr:
        """Return the load of a value that a stage over `axes` stores; parts that are equal share a stage."""
        for each in self.stages:
            if _same(each.axes, axes) and tvm_ffi.structural_equal(each.value, value):
                return tirx.BufferLoad(each.buffer, list(at))
        name = f"{self.stage.name}_part{len(self.stages)}"
        buffer = tirx.decl_buffer(tuple(extents), str(value.expr_ty().dtype), name)
        part = StoredPart(buffer, value, None)
        made = Stage(name, tuple(axes), tuple(extents), (False,) * len(axes), tuple(axes), (part,))
        self.stages.append(made)
        return tirx.BufferLoad(buffer, list(at))


def extracted(read: Read, replaced: Callable[[Extraction], Expr]) -> tuple[Read, list[tirx.Buffer]]:
    """Return a function with parts of its element-wise stages extracted, and the buffers that store them.

    Parameters
    ----------
    replaced
        Returns the new value of a stage, after extracting parts of the old one.
    """
    stages: list[Stage] = []
    buffers: list[tirx.Buffer] = []
    for stage in read.stages:
        made = Extraction(stage)
        if stage.init is None and len(stage.parts) == 1:
            value = replaced(made)
        if made.stages:
            buffers += [each.buffer for each in made.stages]
            stages += [*made.stages, replace(stage, parts=(replace(stage.parts[0], value=value),))]
        else:
            stages.append(stage)
    return (replace(read, stages=tuple(stages)), buffers) if buffers else (read, [])


def _same(axes: Sequence[Var], others: Sequence[Var]) -> bool:
    return len(axes) == len(others) and all(map(Var.same_as, axes, others))
