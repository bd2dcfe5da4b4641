"""Panels of a recurrence's recurrent weight R: how its sums are grouped."""

from __future__ import annotations

import numpy as np

from toolchain.arrays import Array
from toolchain.backends.packed.machine import Machine
from toolchain.models.recurrent.cell import Phase, phases
from toolchain.models.recurrent.spec import Recurrence

_CHAINS = 16  # vectors of sums per row; half of them hide the latency of an addition, as measured


def lanes_of(machine: Machine) -> int:
    """Return the float32 numbers per vector: states and gates are never float16."""
    return machine.products_of("float32").lanes(machine.vector)


def vectors_of(of: Recurrence, phase: Phase, machine: Machine) -> int:
    """Return how many vectors of units are computed together."""
    vectors = of.padded // lanes_of(machine)
    room = max(1, min(_CHAINS, machine.registers // 2 if of.batch == 1 else _CHAINS // 4) // len(phase.gates))
    return max(size for size in range(1, room + 1) if vectors % size == 0)


def rows_of(of: Recurrence, machine: Machine) -> int:
    """Return how many rows of the batch are computed together."""
    if of.lengths:
        return 1
    sums = max(len(phase.gates) * vectors_of(of, phase, machine) for phase in phases(of))
    most = max(1, (machine.registers - sums - 1) // sums)
    return -(-of.batch // -(-of.batch // most))


def pack_weight(weight: Array, of: Recurrence, machine: Machine) -> Array:
    """Return R packed in the order in which the function reads it: one phase's panels after another's."""
    found = []
    for phase in phases(of):
        wide = vectors_of(of, phase, machine) * lanes_of(machine)
        gates = weight[:, :, list(phase.gates), :].reshape(*weight.shape[:2], len(phase.gates), -1, wide)
        found.append(gates.transpose(0, 3, 1, 2, 4).ravel())
    return np.concatenate(found)
