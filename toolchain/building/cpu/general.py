"""The rule for every function that has none of its own, on packed and plain values.

Element-wise stages are computed where they are read; what is left (reductions, what is expensive and
read often, the outputs) is stored. Vectors run along the lanes of a packed value, and along an axis of
a plain one; the outer axes run in parallel.
"""

from __future__ import annotations

from tvm import tirx

from toolchain.building.cpu.core import Core
from toolchain.building.cpu.emit import Layouts, build
from toolchain.building.cpu.expressions import calls
from toolchain.building.cpu.memory import Memory
from toolchain.building.cpu.packed import Packed
from toolchain.building.cpu.plain import plain
from toolchain.building.cpu.read import Read, Stage
from toolchain.building.cpu.value import Value


def general(read: Read, layouts: Layouts, core: Core) -> tirx.PrimFunc:
    """Return a function's loops by the general rule.

    Raises
    ------
    UnreadableError
        It has a stage that the rule does not know.
    """

    def body() -> None:
        memory = Memory(read, layouts, core.lanes)
        for stage in read.stages:
            if not _kept(read, stage):
                continue
            for part in stage.parts:
                if read.place(part.buffer) is None:
                    memory.allocate(part.buffer)
            outs, layout = memory.targets(stage)
            if layout is None:
                plain(Value(memory, stage), outs)
            else:
                Packed(Value(memory, stage), outs, layout).emit()

    return build(body)


def _kept(read: Read, stage: Stage) -> bool:
    """Whether a stage's values are stored: to compute them again and again would cost more."""
    if stage.init is not None or any(read.place(part.buffer) is not None for part in stage.parts):
        return True
    readers = read.readers(stage.buffer)
    often = len(readers) > 1 or any(reader.init is not None for reader in readers)
    return often and calls(stage.value) > 0
