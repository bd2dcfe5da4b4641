"""LSTM, GRU and RNN: one function computes all steps.

A piece of work has some rows of the batch in one direction. In every step, the products of their states with
R are summed up in registers for all gates of a group of units, so that the gates' activations follow
directly. R is packed in panels in the order in which it is read: by group, row of R, gate, unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.arrays import Array
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest, tiles
from toolchain.backends.packed.loops.tile import Inputs, Tile
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.read import Expr
from toolchain.models.recurrent.cell import Phase, buffers, phases
from toolchain.models.recurrent.definition import (
    PEEPHOLES,
    dtype_of,
    last_state,
    size_of_step,
    steps_of,
    steps_of_state,
    time_of,
    zero_point,
)
from toolchain.models.recurrent.recurrence import ATTRIBUTE, Recurrence, recurrence_from

# Panels of a recurrence's recurrent weight R: how its sums are grouped.

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


_FLOAT = "float32"
_SHARED = 1 << 19  # products per step from which several cores share a step


def recurrence_of(func: tirx.PrimFunc) -> Recurrence | None:
    """Return the recurrence that a function computes; None for another function."""
    attribute = (func.attrs or {}).get(ATTRIBUTE)
    return None if attribute is None else recurrence_from(str(attribute))


def recurrent(of: Recurrence, machine: Machine, *, constant: bool) -> tirx.PrimFunc:
    """Return the function of a recurrence.

    Parameters
    ----------
    constant
        Whether R is a constant, packed by `pack_weight`; else it is read in the model's order.
    """
    return build(machine, lambda nest: _Recurrent(nest, of, constant).emit())


class _Recurrent:
    """Generator of the function; `named` has its parameters."""

    def __init__(self, nest: Nest, of: Recurrence, constant: bool) -> None:
        self.of, self.constant = of, constant
        machine = nest.machine
        self.nest, self.machine, self.analyzer = nest, machine, nest.analyzer
        self.lanes = lanes_of(machine)
        shapes = {**of.parameters, **of.outputs}
        if constant:
            shapes["r"] = (of.directions * of.hidden * of.gates * of.padded,)
        self.named = {name: ir.arg(name, ir.buffer(shape, dtype_of(name))) for name, shape in shapes.items()}
        self.states = ("h", "c") if of.cell == "LSTM" else ("h",)
        size = rows_of(of, machine)
        self.full, self.rest = divmod(of.batch, size)
        self.rows, self.bands = size, -(-of.batch // size)
        pieces = of.directions * self.bands
        work = size * of.gates * of.hidden * of.padded
        self.shared = pieces < machine.threads and work >= _SHARED

    def emit(self) -> None:
        """Emit all pieces."""
        of, count = self.of, self.of.directions * self.bands
        with self.nest.pieces([count], small=self.shared) as (piece,):
            direction = self.analyzer.simplify(piece // self.bands)
            band = self.analyzer.simplify(piece % self.bands)
            if len(set(of.activations)) == 1:
                self._band(direction, band)
                return
            for number in range(of.directions):
                with self.nest.when(tirx.EQ(direction, number)):
                    self._band(tirx.IntImm("int32", number), band)

    def _band(self, direction: Expr, band: Expr) -> None:
        last = None if self.bands == 1 else tirx.EQ(band, self.bands - 1)
        if self.full:
            with self.nest.when(None if not self.rest else band < self.full):
                self._piece(direction, self.analyzer.simplify(band * self.rows), self.rows)
        if self.rest:
            with self.nest.when(last):
                self._piece(direction, tirx.IntImm("int32", self.full * self.rows), self.rest)

    def _piece(self, direction: Expr, first: Expr, rows: int) -> None:
        """Emit all steps for some rows of the batch."""
        of = self.of
        kept = {name: self.nest.local((rows * of.padded,), _FLOAT) for name in buffers(of)}
        for name in self.states:
            self._begin(kept[name], self.named[f"{name}0"], direction, first, rows)
        if of.rounded:
            kept["steps"] = self.nest.local((rows * of.padded,), _FLOAT)
            kept["size"] = self.nest.local((rows,), _FLOAT)
        steps = steps_of(of, self.named.get("lengths"), first)
        with self.nest.serial(of.steps, steps) as step:
            time = time_of(of, direction, step, steps)
            if of.rounded:
                self._round(kept, rows)
            for number, phase in enumerate(phases(of)):
                self._phase(number, phase, kept, direction, time, first, rows)
            self._each(rows, self._own(kept["next"]), self._into(self.named["y"], time, direction, first))
            self._go_on(kept["h"], kept["next"], rows)
        if of.lengths:
            with self.nest.serial(of.steps, of.steps - steps) as late:
                zeros = self._into(self.named["y"], steps + late, direction, first)
                self._each(rows, lambda _row, _unit: tirx.const(0, _FLOAT), zeros)
        for name in self.states:
            self._each(rows, self._last(kept[name], steps), self._into(self.named[name], direction, first))

    def _begin(self, state: tirx.Buffer, given: tirx.Buffer, direction: Expr, first: Expr, rows: int) -> None:
        of = self.of

        def load(row: Expr, unit: Expr) -> Expr:
            return given[direction, first + row, unit]

        def store(row: Expr, unit: Expr, value: Expr) -> None:
            ir.buffer_store(state, value, [row * of.padded + unit])

        self._each(rows, load, store)
        if of.padded > of.hidden:
            with self.nest.serial(rows) as row, self.nest.serial(of.padded - of.hidden) as unit:
                store(row, of.hidden + unit, tirx.const(0, _FLOAT))

    def _go_on(self, state: tirx.Buffer, new: tirx.Buffer, rows: int) -> None:
        """Copy the new state to the state of the next step."""
        vectors = self.of.padded // self.lanes
        with self.nest.serial(rows * vectors) as vector, self.nest.vector(self.lanes) as lane:
            here = vector * self.lanes + lane
            ir.buffer_store(state, new[here], [here])

    def _round(self, kept: dict[str, tirx.Buffer], rows: int) -> None:
        """Emit the states as quantised numbers, and the step size of each row."""
        padded, lanes = self.of.padded, self.lanes
        ends = [self.nest.local((lanes,), _FLOAT) for _ in range(2)]
        pick = (tirx.min, tirx.max)
        with self.nest.serial(rows) as row:
            for end in ends:
                with self.nest.vector(lanes) as lane:
                    ir.buffer_store(end, tirx.const(0, _FLOAT), [lane])
            with self.nest.serial(padded // lanes) as vector:
                for end, chosen in zip(ends, pick, strict=True):
                    with self.nest.vector(lanes) as lane:
                        state = kept["h"][row * padded + vector * lanes + lane]
                        ir.buffer_store(end, chosen(end[lane], state), [lane])
            with self.nest.serial(lanes - 1) as lane:
                for end, chosen in zip(ends, pick, strict=True):
                    ir.buffer_store(end, chosen(end[0], end[lane + 1]), [0])
            ir.buffer_store(kept["size"], size_of_step(ends[0][0], ends[1][0]), [row])
            with self.nest.serial(padded // lanes) as vector, self.nest.vector(lanes) as lane:
                here, size = row * padded + vector * lanes + lane, kept["size"][row]
                value = steps_of_state(kept["h"][here], size, zero_point(ends[0][0], size))
                ir.buffer_store(kept["steps"], value, [here])

    def _own(self, kept: tirx.Buffer) -> Callable[[Expr, Expr], Expr]:
        return lambda row, unit: kept[row * self.of.padded + unit]

    def _last(self, kept: tirx.Buffer, steps: Expr) -> Callable[[Expr, Expr], Expr]:
        return lambda row, unit: last_state(self.of, steps, kept[row * self.of.padded + unit])

    def _into(self, buffer: tirx.Buffer, *place: Expr) -> Callable[[Expr, Expr, Expr], None]:
        """Return a function that stores an output; the last index of `place` is that of the first row."""
        *before, first = place
        return lambda row, unit, value: ir.buffer_store(buffer, value, [*before, first + row, unit])

    def _each(
        self, rows: int, load: Callable[[Expr, Expr], Expr], store: Callable[[Expr, Expr, Expr], None]
    ) -> None:
        """Emit a copy of every unit, without the padding."""
        for start, count, size in tiles(self.of.hidden, self.lanes):
            lanes = self.nest.vector(size) if size == self.lanes else self.nest.serial(size)
            with self.nest.serial(rows) as row, self.nest.serial(count) as vector, lanes as lane:
                unit = vector * size + start + lane
                store(row, unit, load(row, unit))

    def _phase(
        self,
        number: int,
        phase: Phase,
        kept: dict[str, tirx.Buffer],
        direction: Expr,
        time: Expr,
        first: Expr,
        rows: int,
    ) -> None:
        of, lanes = self.of, self.lanes
        vectors = vectors_of(of, phase, self.machine)
        groups = of.padded // (vectors * lanes)
        with self._groups(groups) as group:
            tile = Tile(
                self.nest,
                self.machine.instruction(_FLOAT, lanes),
                len(phase.gates) * vectors,
                rows,
                of.hidden,
            )
            self._products(
                tile,
                kept["steps" if of.rounded else phase.state],
                self._weight(number, phase, direction, group),
            )
            for vector in range(vectors):
                with self.nest.unroll(rows) as row, self.nest.vector(lanes) as lane:
                    unit = (group * vectors + vector) * lanes + lane
                    x = self.named["x"]
                    inputs = [
                        x[time * of.batch + first + row, (direction * of.gates + gate) * of.padded + unit]
                        for gate in phase.gates
                    ]
                    products = [
                        tile.totals[place * vectors + vector][row * lanes + lane]
                        for place in range(len(phase.gates))
                    ]
                    if of.rounded:
                        factors = self.named["factors"]
                        products = [
                            product * (kept["size"][row] * factors[direction, gate, unit])
                            for gate, product in zip(phase.gates, products, strict=True)
                        ]
                    functions = of.activations[int(direction) if isinstance(direction, tirx.IntImm) else 0]
                    at = _Unit(self.named, kept, direction, unit, row * of.padded + unit)
                    phase.finish(of, functions, inputs, products, at)

    @contextmanager
    def _groups(self, count: int) -> Iterator[Expr]:
        with self.nest.pieces([count], small=not self.shared) as (group,):
            yield group

    def _weight(
        self, number: int, phase: Phase, direction: Expr, group: Expr
    ) -> Callable[[Expr, int, Expr], Expr]:
        """Return a function that reads R at a row, a vector of the sums and a lane."""
        of, lanes, r = self.of, self.lanes, self.named["r"]
        vectors = vectors_of(of, phase, self.machine)
        wide = len(phase.gates) * vectors * lanes
        if self.constant:
            before = sum(len(each.gates) for each in phases(of)[:number])
            start = of.directions * of.hidden * of.padded * before
            groups = of.padded // (vectors * lanes)
            panel = start + (direction * groups + group) * of.hidden * wide
            return lambda k, place, lane: r[panel + k * wide + place * lanes + lane]

        def at(k: Expr, place: int, lane: Expr) -> Expr:
            gate, vector = divmod(place, vectors)
            return r[direction, k, phase.gates[gate], (group * vectors + vector) * lanes + lane]

        return at

    def _products(self, tile: Tile, state: tirx.Buffer, weight: Callable[[Expr, int, Expr], Expr]) -> None:
        padded, lanes = self.of.padded, self.lanes

        def multiply(inputs: Inputs, first: Expr) -> None:
            inputs.multiply(
                lambda row, k: state[row * padded + first + k],
                lambda k, place, lane: weight(first + k, place, lane),
            )

        by_lane = self.machine.operand == "lane"
        hidden = self.of.hidden
        for start, count, width in self.nest.vectors(hidden, lanes) if by_lane else [(0, hidden, 1)]:
            inputs = tile.inputs(width)
            with self.nest.serial(count) as block:
                multiply(inputs, block * width + start)


class _Unit:
    """Some units of one row, as a vector."""

    def __init__(
        self,
        named: dict[str, tirx.Buffer],
        kept: dict[str, tirx.Buffer],
        direction: Expr,
        unit: Expr,
        place: Expr,
    ) -> None:
        self.named, self.kept, self.direction, self.unit, self.place = named, kept, direction, unit, place

    def load(self, name: str) -> Expr:
        if name in PEEPHOLES:
            return self.named["peepholes"][self.direction, PEEPHOLES.index(name), self.unit]
        if name == "bias":
            return self.named["bias"][self.direction, self.unit]
        return self.kept[name][self.place]

    def store(self, name: str, value: Expr) -> None:
        ir.buffer_store(self.kept[name], value, [self.place])
