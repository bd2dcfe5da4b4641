"""What every algorithm needs to become code: its function, its weight, the zeros around its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import tirx

from toolchain.building.cpu import depthwise, direct, winograd
from toolchain.building.cpu.choice import Choice
from toolchain.building.cpu.convolution import Convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.emit import Layouts
from toolchain.building.cpu.layout import Array, Layout
from toolchain.building.cpu.read import Read

# What a function computes, its epilogue apart.
Work: TypeAlias = Convolution


@dataclass(frozen=True)
class Generator:
    """How one algorithm becomes code. The work (`Any`) is of the kind that the algorithm is for.

    Attributes
    ----------
    function
        Makes the function.
    weight
        Brings a constant weight into the order in which the function reads it; the layout is the
        input's.
    halo
        Zeros that the function wants around its packed input; None: it works on plain values.
    """

    function: Callable[[Read, Any, Choice, Layouts, Core], tirx.PrimFunc]
    weight: Callable[[Array, Any, Choice, Layout, Core], Array]
    halo: Callable[[Any, Choice], tuple[int, ...]] | None


def _pads(conv: Convolution, _choice: Choice) -> tuple[int, ...]:
    return conv.pads


GENERATORS: dict[str, Generator] = {
    "direct": Generator(
        direct.direct,
        lambda weight, conv, choice, source, core: direct.pack_weight(
            weight, conv, choice, core.lanes, source.lanes
        ),
        _pads,
    ),
    "depthwise": Generator(
        depthwise.depthwise,
        lambda weight, conv, _choice, _source, core: depthwise.pack_weight(weight, conv, core.lanes),
        _pads,
    ),
    "winograd": Generator(
        winograd.winograd,
        lambda weight, conv, choice, _source, core: winograd.pack_weight(weight, conv, choice, core.lanes),
        lambda conv, choice: winograd.halo(conv, choice.tile),
    ),
}
