"""What every algorithm needs to become code: its function, its weight, the zeros around its input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from toolchain.backends.packed.algorithms import depthwise
from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.dense import loops as dense
from toolchain.backends.packed.algorithms.direct import loops as direct
from toolchain.backends.packed.algorithms.direct import taps
from toolchain.backends.packed.algorithms.interleaved import loops as interleaved
from toolchain.backends.packed.algorithms.winograd import loops as winograd
from toolchain.backends.packed.layout import Array
from toolchain.backends.packed.loops.emit import Layouts
from toolchain.backends.packed.machine import Machine
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

    function: Callable[[Read, Any, Choice, Layouts, Machine], tirx.PrimFunc]
    weight: Callable[[Array, Any, Choice, Machine, int], Array]
    halo: Callable[[Any, Choice], tuple[int, ...]] | None


def _pads(conv: Convolution | Transposed, _choice: Choice) -> tuple[int, ...]:
    return conv.pads


GENERATORS: dict[str, Generator] = {
    "direct": Generator(
        direct.direct,
        lambda weight, conv, choice, machine, inputs: direct.pack_weight(
            weight, conv, choice, machine.lanes, inputs
        ),
        taps.halo,
    ),
    "depthwise": Generator(
        depthwise.depthwise,
        lambda weight, conv, _choice, machine, _inputs: depthwise.pack_weight(weight, conv, machine.lanes),
        _pads,
    ),
    "winograd": Generator(
        winograd.winograd,
        lambda weight, conv, choice, machine, _inputs: winograd.pack_weight(
            weight, conv, choice, machine.lanes
        ),
        lambda conv, choice: winograd.halo(conv, choice.tile),
    ),
    "interleaved": Generator(
        interleaved.interleaved,
        lambda weight, work, choice, machine, inputs: interleaved.pack_weight(
            weight, work, choice, machine.lanes, inputs
        ),
        _pads,
    ),
    "dense": Generator(
        dense.dense,
        lambda weight, work, choice, machine, _inputs: dense.pack_weight(weight, work, choice, machine.lanes),
        None,
    ),
}
