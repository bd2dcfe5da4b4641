"""What becomes of every call of a fused network: its rule, its choice, and the layouts of the values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from toolchain.building.cpu.choice import GENERAL, Choice
from toolchain.building.cpu.convolution import convolution
from toolchain.building.cpu.core import Core
from toolchain.building.cpu.generators import GENERATORS, Generator, Work
from toolchain.building.cpu.layout import Layout
from toolchain.building.cpu.read import Read, UnreadableError, read, shape_of

# Name of a fused function and what it computes -> how; None: by the general rule.
Choose = Callable[[str, Work], "Choice | None"]


@dataclass(frozen=True)
class Step:
    """One binding of the network, of a Relax expression that is no function's call."""

    var: relax.Var
    value: relax.Expr


@dataclass(frozen=True)
class Call(Step):
    """The call of a fused function; by itself one that keeps its default schedule."""

    function: str

    @property
    def arguments(self) -> list[relax.Expr]:
        """What is handed over, outputs apart."""
        return list(self.value.args[1].fields)


@dataclass(frozen=True)
class Generated(Call):
    """A call whose function is generated; without `work` by the general rule."""

    read: Read
    choice: Choice = GENERAL
    work: Work | None = None

    @property
    def generator(self) -> Generator | None:
        """What makes the function; None: the general rule."""
        return None if self.work is None else GENERATORS[self.choice.algorithm]

    def argument(self, buffer: tirx.Buffer) -> relax.Expr:
        """Return what is handed over for a parameter."""
        return self.arguments[self.read.parameter(buffer)]


@dataclass
class Plan:
    """The steps in their order, and how their values lie in memory."""

    lanes: int
    steps: list[Step] = field(default_factory=list)
    packed: set[relax.Var] = field(default_factory=set)
    halos: dict[relax.Var, tuple[int, ...]] = field(default_factory=dict)

    def layout(self, value: relax.Var) -> Layout:
        """Return the layout of a value where it is packed."""
        shape = extents(value)
        lanes = self.lanes if value in self.packed or shape[1] >= self.lanes else 1
        return Layout(lanes, self.halos.get(value, (0,) * (2 * (len(shape) - 2))))


def extents(value: relax.Expr) -> tuple[int, ...]:
    """Return the shape of a Relax value."""
    return tuple(int(extent) for extent in value.ty.shape)


def packable(value: relax.Expr) -> bool:
    """Whether a value is a batch of images (or rows, or volumes) of float32."""
    if not isinstance(value, relax.Var) or not isinstance(value.ty, relax.TensorType):
        return False
    shape = extents(value)
    return len(shape) in (3, 4, 5) and prod(shape[2:]) > 1 and str(value.ty.dtype) == "float32"


def plan(fused: tvm.IRModule, core: Core, choose: Choose) -> Plan:
    """Plan every call of the network's function `main`."""
    reads: dict[str, Read | None] = {}
    result = Plan(core.lanes)
    for block in fused["main"].body.blocks:
        for binding in block.bindings:
            step = _step(fused, binding, reads, choose)
            result.steps.append(step)
            if isinstance(step, Generated):
                _place(step, result)
    return result


def _step(fused: tvm.IRModule, binding: relax.Binding, reads: dict[str, Read | None], choose: Choose) -> Step:
    var, value = binding.var, binding.value
    if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.call_tir"):
        return Step(var, value)
    name = value.args[0].name_hint
    if name not in reads:
        reads[name] = _readable(fused[name])
    found = reads[name]
    if found is None or not isinstance(value.ty, relax.TensorType):
        return Call(var, value, name)
    general = Generated(var, value, name, found)
    conv = convolution(found)
    if conv is None or not _tiled(general, conv):
        return general
    choice = choose(name, conv)
    return general if choice is None else Generated(var, value, name, found, choice, conv)


def _readable(func: tirx.PrimFunc) -> Read | None:
    try:
        return read(func)
    except UnreadableError:
        return None


def _tiled(step: Generated, conv: Work) -> bool:
    """Whether a convolution's weight is known, and its output is the function's, element by element."""
    return (
        isinstance(step.argument(conv.weight), GenericConst)
        and shape_of(conv.y) == shape_of(step.read.output)
        and prod(conv.out) > 1
        and packable(step.var)
        and packable(step.argument(conv.x))
    )


def _place(step: Generated, result: Plan) -> None:
    """Decide whether the step's value is packed, and what halo its input needs."""
    if step.work is not None and step.generator is not None:
        if step.generator.halo is not None:
            result.packed.add(step.var)
            source = step.argument(step.work.x)
            need = step.generator.halo(step.work, step.choice)
            have = result.halos.get(source, (0,) * len(need))
            result.halos[source] = tuple(map(max, have, need))
    elif packable(step.var):
        shape = extents(step.var)
        for source in step.arguments:
            if isinstance(source, relax.Var) and source in result.packed:
                theirs = extents(source)
                if len(theirs) == len(shape) and (shape[1] >= result.lanes or theirs[1] == shape[1]):
                    result.packed.add(step.var)
