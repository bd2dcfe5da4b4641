"""The choice for a function without a record."""

from __future__ import annotations

from toolchain.building.cpu import dense_tile, interleaved, winograd
from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import Convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.matmul import Matmul
from toolchain.building.cpu.tile import depthwise_tile, direct_tile
from toolchain.building.cpu.transposed import Transposed
from toolchain.building.cpu.work import Work

_LARGE = 28  # rows from which on one row of tiles is enough for a parallel piece


def default_choice(work: Work, core: Core, use_winograd: bool) -> Choice | None:
    """Return how a contraction is computed; None: by the general rule."""
    if isinstance(work, Matmul):
        return dense_tile.dense_tile(work, core)
    if isinstance(work, Transposed):
        return interleaved.interleaved_tile(work, core)
    return _convolution(work, core, use_winograd)


def _convolution(conv: Convolution, core: Core, use_winograd: bool) -> Choice | None:
    if conv.depthwise:
        return depthwise_tile(conv, core)
    if conv.groups != 1:
        return None
    if use_winograd and winograd.applies(conv) and conv.ci >= core.lanes and len(conv.out) == 2:
        return _winograd(conv, 2 if -(-conv.co // core.lanes) % 2 == 0 else 1)
    return direct_tile(conv, core)


def _winograd(conv: Convolution, blocks: int) -> Choice:
    if conv.out[0] >= _LARGE:
        m = 4 if conv.out[0] % 4 == 0 else 2
        return Choice("winograd", blocks, min(14, -(-conv.out[1] // m)), tile=m)
    m = 4 if conv.out[0] > 7 else 2
    count = conv.batch * (-(-conv.out[0] // m)) * (-(-conv.out[1] // m))
    return Choice("winograd", blocks, -(-count // -(-count // 14)), tile=m, order="channels")


def candidates(work: Work, core: Core) -> list[Choice]:
    """Return the choices that a tuner may measure, the default first."""
    if isinstance(work, Matmul):
        return dense_tile.candidates(work, core)
    if isinstance(work, Transposed):
        return interleaved.candidates(work, core)
    found = [default_choice(work, core, True), default_choice(work, core, False)]
    return list(dict.fromkeys(choice for choice in found if choice is not None))


def legal(choice: Choice, work: Work, core: Core) -> bool:
    """Whether a choice computes a contraction."""
    if isinstance(work, Matmul):
        return dense_tile.legal(choice, work, core)
    if isinstance(work, Transposed):
        return interleaved.legal(choice, work, core)
    return choice in candidates(work, core)
