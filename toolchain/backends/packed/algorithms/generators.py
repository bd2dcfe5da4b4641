"""What every algorithm needs to become code: its function, its weight, the zeros around its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from toolchain.backends.packed.algorithms import dense, depthwise, direct, interleaved, taps, winograd
from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.core import Core
from toolchain.backends.packed.layout import Array
from toolchain.backends.packed.loops.emit import Layouts
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read
from toolchain.backends.packed.recognise.transposed import Transposed


@dataclass(frozen=True)
class Generator:
    """How one algorithm becomes code. The work (`Any`) is of the kind that the algorithm is for.

    Attributes
    ----------
    function
        Makes the function.
    weight
        Brings a constant weight into the order in which the function reads it; the number is of the
        lanes of the input, 1 where it is plain.
    halo
        Zeros that the function wants around its packed input; None: it works on plain values.
    """

    function: Callable[[Read, Any, Choice, Layouts, Core], tirx.PrimFunc]
    weight: Callable[[Array, Any, Choice, Core, int], Array]
    halo: Callable[[Any, Choice], tuple[int, ...]] | None


def _pads(conv: Convolution | Transposed, _choice: Choice) -> tuple[int, ...]:
    return conv.pads


GENERATORS: dict[str, Generator] = {
    "direct": Generator(
        direct.direct,
        lambda weight, conv, choice, core, inputs: direct.pack_weight(
            weight, conv, choice, core.lanes, inputs
        ),
        taps.halo,
    ),
    "depthwise": Generator(
        depthwise.depthwise,
        lambda weight, conv, _choice, core, _inputs: depthwise.pack_weight(weight, conv, core.lanes),
        _pads,
    ),
    "winograd": Generator(
        winograd.winograd,
        lambda weight, conv, choice, core, _inputs: winograd.pack_weight(weight, conv, choice, core.lanes),
        lambda conv, choice: winograd.halo(conv, choice.tile),
    ),
    "interleaved": Generator(
        interleaved.interleaved,
        lambda weight, work, choice, core, inputs: interleaved.pack_weight(
            weight, work, choice, core.lanes, inputs
        ),
        _pads,
    ),
    "dense": Generator(
        dense.dense,
        lambda weight, work, choice, core, _inputs: dense.pack_weight(weight, work, choice, core.lanes),
        None,
    ),
}
