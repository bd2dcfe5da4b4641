"""Defines a recurrence in scalar TensorIR: its meaning, and its code if no generator handles it."""

from __future__ import annotations

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script.builder import ir as build

from toolchain.models.recurrent.cell import Expr, Phase, buffers, phases
from toolchain.models.recurrent.recurrence import ATTRIBUTE, Recurrence

# Rounds a state to 8 bits before it is multiplied, with a new scale in each step.
#
# This follows onnxruntime's DynamicQuantizeLinear: the range is from the smallest to the largest number,
# and 0 is representable. Each row of the batch has its own scale, as in onnxruntime with a thread for each
# row.

_MOST = 255.0


def _float(value: float) -> Expr:
    return tirx.const(value, "float32")


def size_of_step(low: Expr, high: Expr) -> Expr:
    """Return the quantisation step for the range from `low`, at most 0, to `high`, at least 0."""
    size = (high - low) / _float(_MOST)
    return tirx.Select(tirx.EQ(size, _float(0)), _float(1), size)


def zero_point(low: Expr, size: Expr) -> Expr:
    """Return the zero point: the number of steps from `low` to 0."""
    return tirx.max(tirx.min(tirx.round(_float(0) - low / size), _float(_MOST)), _float(0))


def steps_of_state(value: Expr, size: Expr, zero: Expr) -> Expr:
    """Return a number in quantisation steps from 0, rounded and clipped to 8 bits, as a float."""
    step = tirx.round(value / size) + zero
    return tirx.max(tirx.min(step, _float(_MOST)), _float(0)) - zero


_OPAQUE = 8  # relax.OpPatternKind.OPAQUE: nothing is fused with it
PEEPHOLES = ("input", "output", "forget")
"""Gates with peepholes, in the order of ONNX's input P."""


def define(of: Recurrence) -> tirx.PrimFunc:
    """Return the function of a recurrence: its inputs, then its outputs."""
    with IRBuilder() as builder, build.prim_func(s_tir=True):
        build.func_name("main")
        build.func_attr({ATTRIBUTE: of.to_json(), "op_pattern": _OPAQUE, "tirx.noalias": True})
        named = {
            name: build.arg(name, build.buffer(shape, dtype_of(name)))
            for name, shape in {**of.parameters, **of.outputs}.items()
        }
        with build.sblock("root"), build.sblock(of.cell.lower()):
            build.reads([_whole(named[name]) for name in of.parameters])
            build.writes([_whole(named[name]) for name in of.outputs])
            _Definition(of, named).emit()
    func: tirx.PrimFunc = builder.get()
    return func.without_attr("global_symbol")  # which must be one of its own in a module


def _whole(buffer: tirx.Buffer) -> tirx.BufferRegion:
    return buffer[tuple(slice(0, int(extent)) for extent in buffer.shape)]


def dtype_of(name: str) -> str:
    """Return the type of a parameter."""
    return "int32" if name == "lengths" else "float32"


def steps_of(of: Recurrence, lengths: tirx.Buffer | None, row: Expr) -> Expr:
    """Return how many steps a sequence of the batch has."""
    if lengths is None:
        return tirx.IntImm("int32", of.steps)
    return tirx.max(tirx.min(lengths[row], of.steps), 0)


def last_state(of: Recurrence, steps: Expr, state: Expr) -> Expr:
    """Return the state after a sequence's last step; 0 for a sequence without steps."""
    return tirx.Select(steps > 0, state, tirx.const(0, "float32")) if of.lengths else state


def time_of(of: Recurrence, direction: Expr, step: Expr, steps: Expr) -> Expr:
    """Return the time index that a step of a direction reads and writes."""
    if not any(of.reverse):
        return step
    backwards = steps - 1 - step
    return backwards if all(of.reverse) else tirx.Select(tirx.EQ(direction, 0), step, backwards)


class _Definition:
    def __init__(self, of: Recurrence, named: dict[str, tirx.Buffer]) -> None:
        self.of, self.named = of, named

    def emit(self) -> None:
        of, named = self.of, self.named
        for direction in range(of.directions):
            with build.serial(0, of.batch) as row:
                kept = {name: build.alloc_buffer((of.hidden,), "float32") for name in buffers(of)}
                if of.rounded:
                    kept |= {
                        name: build.alloc_buffer((extent,), "float32")
                        for name, extent in {"steps": of.hidden, "ends": 2, "size": 1}.items()
                    }
                with build.serial(0, of.hidden) as unit:
                    for name in self._states():
                        build.buffer_store(kept[name], named[f"{name}0"][direction, row, unit], [unit])
                steps = steps_of(of, named.get("lengths"), row)
                with build.serial(0, steps) as step:
                    time = time_of(of, tirx.IntImm("int32", direction), step, steps)
                    if of.rounded:
                        self._round(kept)
                    for phase in phases(of):
                        with build.serial(0, of.hidden) as unit:
                            self._unit(kept, phase, direction, row, time, unit)
                    with build.serial(0, of.hidden) as unit:
                        build.buffer_store(kept["h"], kept["next"][unit], [unit])
                        build.buffer_store(named["y"], kept["next"][unit], [time, direction, row, unit])
                with build.serial(0, of.steps - steps) as rest, build.serial(0, of.hidden) as unit:
                    zero = tirx.const(0, "float32")
                    build.buffer_store(named["y"], zero, [steps + rest, direction, row, unit])
                with build.serial(0, of.hidden) as unit:
                    for name in self._states():
                        state = last_state(of, steps, kept[name][unit])
                        build.buffer_store(named[name], state, [direction, row, unit])

    def _round(self, kept: dict[str, tirx.Buffer]) -> None:
        """Emit the quantised state and its step size."""
        ends, size = kept["ends"], kept["size"]
        for place in range(2):
            build.buffer_store(ends, tirx.const(0, "float32"), [place])
        with build.serial(0, self.of.hidden) as unit:
            build.buffer_store(ends, tirx.min(ends[0], kept["h"][unit]), [0])
            build.buffer_store(ends, tirx.max(ends[1], kept["h"][unit]), [1])
        build.buffer_store(size, size_of_step(ends[0], ends[1]), [0])
        with build.serial(0, self.of.hidden) as unit:
            value = steps_of_state(kept["h"][unit], size[0], zero_point(ends[0], size[0]))
            build.buffer_store(kept["steps"], value, [unit])

    def _states(self) -> list[str]:
        return ["h", "c"] if self.of.cell == "LSTM" else ["h"]

    def _unit(
        self, kept: dict[str, tirx.Buffer], phase: Phase, direction: int, row: Expr, time: Expr, unit: Expr
    ) -> None:
        of = self.of
        sums = build.alloc_buffer((len(phase.gates),), "float32")
        for place, gate in enumerate(phase.gates):
            build.buffer_store(sums, tirx.const(0, "float32"), [place])
            with build.serial(0, of.hidden) as k:
                product = (
                    kept["steps" if of.rounded else phase.state][k]
                    * self.named["r"][direction, k, gate, unit]
                )
                build.buffer_store(sums, sums[place] + product, [place])
        first = direction * of.gates
        inputs = [
            self.named["x"][time * of.batch + row, (first + gate) * of.padded + unit] for gate in phase.gates
        ]
        products = [sums[place] for place in range(len(phase.gates))]
        if of.rounded:
            factors = self.named["factors"]
            products = [
                product * (kept["size"][0] * factors[direction, gate, unit])
                for gate, product in zip(phase.gates, products, strict=True)
            ]
        phase.finish(
            of, of.activations[direction], inputs, products, _Numbers(self.named, kept, direction, unit)
        )


class _Numbers:
    """Loads and stores of one hidden unit in one direction, for the equations of `cell`."""

    def __init__(
        self, named: dict[str, tirx.Buffer], kept: dict[str, tirx.Buffer], direction: int, unit: Expr
    ) -> None:
        self.named, self.kept, self.direction, self.unit = named, kept, direction, unit

    def load(self, name: str) -> Expr:
        if name in PEEPHOLES:
            return self.named["peepholes"][self.direction, PEEPHOLES.index(name), self.unit]
        if name == "bias":
            return self.named["bias"][self.direction, self.unit]
        return self.kept[name][self.unit]

    def store(self, name: str, value: Expr) -> None:
        build.buffer_store(self.kept[name], value, [self.unit])
