"""Features of a choice for a cost model: of the choice, of the task, and of both together."""

from __future__ import annotations

from functools import lru_cache
from math import log2, prod

from toolchain.backends.packed.algorithms.choice import Choice
from toolchain.backends.packed.algorithms.policy import cost
from toolchain.backends.packed.algorithms.table import ALGORITHMS
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction, recognise
from toolchain.backends.packed.recognise.matmul import Matmul
from toolchain.backends.packed.recognise.read import read
from toolchain.lowering.functions.definition import function_of

_NUMBERS = ("blocks", "columns", "rows", "depth", "flat")


def features(choice: Choice, contraction: Contraction | None, machine: Machine) -> list[float]:
    """Return the features of a choice, the same number for all choices, contractions and machines."""
    knobs = choice.knobs
    algorithm = [float(choice.algorithm == each.name) for each in ALGORITHMS]
    tile = [*knobs["tile"], 0, 0, 0][:3]
    own = [*(knobs[name] for name in _NUMBERS), *tile, knobs["order"] == "channels"]
    own += [*[*choice.group, 0, 0, 0][:3], choice.loads == "weights"]
    together = _together(choice, contraction, machine)
    return [*algorithm, *map(float, own), *together, *_task(contraction, machine)]


@lru_cache(maxsize=1024)
def contraction_of(definition: str) -> Contraction | None:
    """Return the contraction in a function, given by its definition; None if it has none."""
    return recognise(read(function_of(definition)))


def _task(contraction: Contraction | None, machine: Machine) -> list[float]:
    """Return the features of the task, sizes as logarithms, and of the machine."""
    host = [float(machine.lanes), float(machine.registers), log2(machine.cache), float(machine.threads)]
    if contraction is None:
        return [0.0] * 10 + host
    if isinstance(contraction, Matmul):
        batch, rows = contraction.batch.extent, contraction.rows.extent
        counts = [1, batch, contraction.inner.extent, contraction.columns.extent, rows, 1, 1, 1, rows, 1]
    else:
        counts = [
            2,
            contraction.batch,
            contraction.ci,
            contraction.co,
            prod(contraction.out),
            prod(contraction.kernel),
            prod(contraction.stride),
            contraction.groups,
            contraction.out[-1],
            contraction.dilation[-1],
        ]
    return [*(log2(max(1, count)) for count in counts), *host]


def _together(choice: Choice, contraction: Contraction | None, machine: Machine) -> list[float]:
    """Return how a choice fits the task: sums in registers, rests of tiles, pieces, relative estimate."""
    knobs = choice.knobs
    sums = knobs["blocks"] * knobs["columns"]
    if contraction is None or isinstance(contraction, Matmul):
        return [float(sums), 0.0, 0.0, 0.0, 0.0]
    width = prod(contraction.out) if knobs["flat"] else contraction.out[-1]
    tiles = -(-width // max(1, knobs["columns"]))
    blocks = -(-contraction.co // (machine.lanes * max(1, knobs["blocks"])))
    pieces = blocks * -(-prod(contraction.out[:-1]) // max(1, knobs["rows"]))
    estimate = cost(choice, contraction, machine)
    work = 2.0 * contraction.batch * prod(contraction.out) * contraction.co * contraction.ci
    work *= prod(contraction.kernel) / contraction.groups / machine.flops(contraction.dtype)
    relative = 0.0 if estimate is None else log2(estimate.seconds * machine.threads / work)
    return [float(sums), width / (tiles * max(1, knobs["columns"])), float(tiles), log2(pieces), relative]
