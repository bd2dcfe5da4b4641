"""What a core can do at this moment, and what the functions of a network ask of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from tvm import relax

from benchmarks.families.graph import Net
from benchmarks.in_network import Call, compiled, lowered, time_calls, workload_of, workloads_of
from benchmarks.latency.layers import label
from toolchain.backends.packed.algorithms.winograd.transforms import WinogradChoice, points, summed
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.transposed import Transposed
from toolchain.backends.packed.space import PackedSpace
from toolchain.lowering.functions.tasks import FusedTask
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import Profile

_LOOP_NS = 5_000_000  # of a loop in a turn, about
# The convolution at the peak, 40 us long: 130 KB of operands. Winograd does not apply where taps are apart.
_INPUTS, _OUTPUTS, _SIZE, _TAPS, _APART = 64, 32, 14, 3, 2
_ROW = 1024  # inputs of the dense layers
_NEAR, _FAR = 2**20, (2**24, 2**28)  # bytes of their weights: what L2 holds; the least and the most beyond it


@dataclass(frozen=True)
class Work:
    """What a function has to do.

    Attributes
    ----------
    flops, least
        Two for each multiply-accumulate by the definition, and by the algorithm that needs fewest; 0 of what
        is no contraction.
    label
        What is computed, such as `64→64 3x3, 56x56`.
    far, near
        Bytes that it reads and writes: of constants and of values that L2 does not hold, and of all others.
    """

    flops: float = 0
    least: float = 0
    far: int = 0
    near: int = 0
    label: str = ""


@dataclass(frozen=True)
class Speeds:
    """GFLOP/s of products, and GB/s of reading from afar and 1 MiB, on one core."""

    peak: float
    far: float
    near: float

    def faster(self, other: Speeds) -> Speeds:
        """Return the greater of each speed."""
        return Speeds(max(self.peak, other.peak), max(self.far, other.far), max(self.near, other.near))

    def limit(self, work: Work) -> float:
        """Return the nanoseconds that work takes at least."""
        return max(work.least / self.peak, work.far / self.far + work.near / self.near)


@dataclass(frozen=True)
class Compiled:
    """A network as it is compiled without records, and the work of its functions by workload."""

    model: Model
    machine: relax.VirtualMachine
    work: Mapping[str, Work]
    workloads: Mapping[str, str]

    def times(self, runs: int) -> dict[Call, int]:
        """Run it; return the least CPU time of each call in nanoseconds."""
        found: dict[Call, int] = {}
        time_calls(self.machine, self.model, runs, found)
        return found

    def work_of(self, function: str) -> Work:
        """Return the work of a function; none for one that only our layouts need."""
        return self.work.get(workload_of(function, self.workloads), Work())


def compile_network(model: Model, profile: Profile, folder: Path) -> Compiled:
    """Return a network as it is compiled without records, for one thread."""
    with lowered(model, profile) as network:
        spaces = {task.workload: network.space(task) for task in network.tasks}
        machine = compiled(
            network, {name: space.points[0] for name, space in spaces.items()}, profile, folder
        )
        work = {task.workload: _work(task, spaces[task.workload]) for task in network.tasks}
        return Compiled(model, machine, work, workloads_of(network))


def _work(task: FusedTask, space: PackedSpace) -> Work:
    far = near = 0
    for each in task.parameters:
        size = prod(each.shape) * np.dtype(each.dtype).itemsize
        distant = each.value is not None or size > _NEAR
        far, near = (far + size, near) if distant else (far, near + size)
    flops = 0 if space.contraction is None else task.flops
    least = min(_shares(space), default=1.0) * _flops(space, flops)
    return Work(flops, least, far, near, label(task.name, task.shapes))


def _flops(space: PackedSpace, flops: int) -> int:
    """Return the operations of a definition, without taps that never meet the image."""
    conv = space.contraction
    if isinstance(conv, Convolution | Transposed):
        at = conv.out if isinstance(conv, Convolution) else conv.size
        return 2 * conv.batch * conv.ci * conv.co // conv.groups * prod(at) * prod(conv.kernel)
    return flops


def _shares(space: PackedSpace) -> Iterator[float]:
    """Yield the multiply-accumulates of each choice, those of the definition being 1."""
    conv = space.contraction
    for choice in space.points:
        if isinstance(conv, Convolution) and isinstance(choice, WinogradChoice):
            tiles = prod(-(-out // m) for out, m in zip(conv.out, choice.tile, strict=True))
            each = prod(points(conv.kernel, choice.tile)) * summed(conv.kernel, choice.tile)
            yield tiles * each / (prod(conv.out) * prod(conv.kernel))
        else:
            yield 1.0


class Loops:
    """Networks of one function that run at a core's limits."""

    def __init__(self, profile: Profile, folder: Path) -> None:
        self.profile, self.folder = profile, folder
        self.products = self._compiled(_convolution())
        self.near = self._compiled(_dense(_NEAR))

    def far(self, network: Compiled) -> Compiled:
        """Return a dense layer whose weights are as large as what a network reads from afar."""
        size = sum(network.work[workload].far for workload in network.workloads.values())
        return self._compiled(_dense(min(max(size, _FAR[0]), _FAR[1])))

    def speeds(self, far: Compiled) -> Speeds:
        """Return the speeds of this moment."""
        (peak, _), (_, near), (_, away) = (_speed(each) for each in (self.products, self.near, far))
        return Speeds(peak, away, near)

    def _compiled(self, net: Net) -> Compiled:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        file = folder / "loop.onnx"
        onnx.save(net.model("y"), str(file))
        return compile_network(load_model(str(file), ModelOptions()), self.profile, folder / "made")


def _speed(loop: Compiled) -> tuple[float, float]:
    """Return GFLOP/s and GB/s that the function of a loop reaches."""
    call, least = max(loop.times(1).items(), key=lambda each: each[1])
    least = min(least, loop.times(max(2, _LOOP_NS // least))[call])
    work = loop.work_of(call[1])
    return work.flops / least, (work.far or work.near) / least


def _convolution() -> Net:
    """Return a convolution whose operands stay in L1 and L2."""
    net = Net("peak", (1, _INPUTS, _SIZE, _SIZE))
    values = np.random.default_rng(0).standard_normal((_OUTPUTS, _INPUTS, _TAPS, _TAPS))
    window = {"kernel_shape": [_TAPS] * 2, "pads": [_APART] * 4, "dilations": [_APART] * 2}
    net.op("Conv", "y", [net.data, net.constant("w", values)], (1, _OUTPUTS, _SIZE, _SIZE), **window)
    return net


def _dense(weights: int) -> Net:
    """Return a dense layer of one row with so many bytes of weights, about."""
    net = Net("dense", (1, _ROW))
    net.linear("y", net.data, weights // (4 * _ROW))
    return net
