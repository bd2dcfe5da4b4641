"""Single convolutions: generated for any choice, compiled together, run on packed numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import te, topi

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.depthwise import algorithm as depthwise_space
from toolchain.backends.packed.algorithms.direct import space as direct_space
from toolchain.backends.packed.algorithms.table import algorithm_of
from toolchain.backends.packed.layout import Layout, dense_layout
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.convolution import Convolution, convolution
from toolchain.backends.packed.recognise.read import Read, read, shape_of
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for


@dataclass(frozen=True)
class Layer:
    """A 2-D convolution; bias, another value of the output's shape and ReLU follow.

    A kernel or a pad of one number is of both axes.
    """

    ci: int
    co: int
    size: tuple[int, int]
    kernel: int | tuple[int, int] = 3
    stride: int = 1
    pad: int | tuple[int, int] = 1
    groups: int = 1
    batch: int = 1
    dilation: int = 1

    def read(self) -> tuple[Read, Convolution]:
        """Return what the unpacked function computes."""
        x = te.placeholder((self.batch, self.ci, *self.size), name="x")
        w = te.placeholder((self.co, self.ci // self.groups, *_both(self.kernel)), name="w")
        if self.groups > 1:
            y = topi.nn.group_conv2d_nchw(x, w, self.stride, self.pad, self.dilation, self.groups)
        else:
            y = topi.nn.conv2d_nchw(x, w, self.stride, self.pad, self.dilation)
        bias = te.placeholder((1, self.co, 1, 1), name="bias")
        other = te.placeholder(y.shape, name="other")
        out = topi.nn.relu(topi.add(topi.add(y, bias), other))
        found = read(te.create_prim_func([x, w, bias, other, out]))
        conv = convolution(found)
        assert conv is not None
        return found, conv

    def expected(self, x: Array, w: Array, bias: Array, other: Array) -> Array:
        """Return what it must compute, in float64."""
        s = self.stride
        padded = np.pad(x.astype("f8"), [(0, 0), (0, 0), *((pad, pad) for pad in _both(self.pad))])
        total = other.astype("f8") + bias
        high, wide = total.shape[2:]
        each, own = self.co // self.groups, self.ci // self.groups
        for g, i, j in np.ndindex(self.groups, *_both(self.kernel)):
            y, x0 = i * self.dilation, j * self.dilation
            part = padded[:, g * own : (g + 1) * own, y : y + s * high : s, x0 : x0 + s * wide : s]
            mine = slice(g * each, (g + 1) * each)
            total[:, mine] += np.einsum("nchw,oc->nohw", part[..., :high, :wide], w[mine, :, i, j])
        return np.maximum(total, 0)


def _both(extent: int | tuple[int, int]) -> tuple[int, int]:
    return extent if isinstance(extent, tuple) else (extent, extent)


@dataclass(frozen=True)
class Case:
    """A layer, generated for one choice.

    Attributes
    ----------
    halo
        Zeros around the output, on every side.
    """

    layer: Layer
    choice: Choice
    halo: int = 0


def spread(layers: Sequence[Layer], machine: Machine) -> list[Case]:
    """Return layers with the first, the middle and the last of their choices, or about so."""
    cases = []
    for layer in layers:
        conv = layer.read()[1]
        space = depthwise_space if conv.depthwise else direct_space
        choices = space.candidates(conv, machine)
        cases += [Case(layer, choice, halo=i % 2) for i, choice in enumerate(choices[:: len(choices) // 2])]
    return cases


@dataclass(frozen=True)
class Ready:
    """A compiled case: its function, its packed arguments (the output last), and what is due."""

    case: Case
    run: Callable[..., None]
    arguments: list[Array]
    expected: Array
    output: Layout | None

    def error(self, output: Array) -> float:
        """Return how far the output is from what is due, infinite where padding is not zero."""
        found = output if self.output is None else self.output.unpack(output, self.expected.shape)
        if self.output is not None and not np.array_equal(self.output.pack(found), output):
            return np.inf
        return float(np.abs(found - self.expected).max() / np.abs(self.expected).max())


def ready(cases: Sequence[Case], machine: Machine) -> list[Ready]:
    """Compile cases, all as one module, for any x86-64."""
    made = [function(case, machine) for case in cases]
    module = tvm.IRModule(
        {f"f{i}": func.with_attr("global_symbol", f"f{i}") for i, (func, *_) in enumerate(made)}
    )
    library = tvm.compile(module, target_for(load_profile("x86_64")).target)
    return [
        Ready(case, library[f"f{i}"], arguments, expected, output)
        for i, (case, (_func, arguments, expected, output)) in enumerate(zip(cases, made, strict=True))
    ]


def wrong(cases: Sequence[Case], machine: Machine) -> list[str]:
    """Return the cases that compute something else than numpy, and by how much."""
    found = []
    for each in ready(cases, machine):
        tensors = [tvm.runtime.tensor(argument) for argument in each.arguments]
        each.run(*tensors)
        error = each.error(tensors[-1].numpy())
        if not error < 1e-5:
            found.append(f"{each.case}: {error:.1e}")
    return found


def function(case: Case, machine: Machine) -> tuple[tvm.tirx.PrimFunc, list[Array], Array, Layout | None]:
    """Return a case's function, its arguments, what is due, and the output's layout; None: it is plain."""
    random = np.random.default_rng(0)
    found, conv = case.layer.read()
    values = [random.standard_normal(shape_of(param)).astype("float32") for param in found.params]
    vector = machine.lanes if conv.ci >= machine.lanes else 1
    plain = dense_layout(machine.lanes, 4)
    algorithm = algorithm_of(case.choice)
    layouts: list[Layout | None] = [None] * len(values)
    if algorithm.values == "packed":
        output = replace(plain, halo=(case.halo,) * 4)
        layouts = [Layout(vector, algorithm.halo(conv, case.choice, machine)), None, plain, plain, output]
    weight = algorithm.weight(values[1], conv, case.choice, machine, vector)
    func = algorithm.function(found, conv, case.choice, layouts, machine)
    packed = [
        value if layout is None else layout.pack(value) for value, layout in zip(values, layouts, strict=True)
    ]
    packed[1] = weight
    packed[-1] = np.full_like(packed[-1], np.nan)  # so that what is not written shows
    return func, packed, case.layer.expected(*values[:-1]), layouts[-1]
