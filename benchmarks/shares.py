"""How near the convolutions and dense layers of networks come to the core's peak at the same moment.

    python -m benchmarks.shares [NETWORK…] [--family NAME] [--below 0.9]

The peak of a core changes within seconds where others share the machine: on a virtual host the same code gave
118 to 179 GFLOP/s within minutes. So a convolution whose operands stay in L1 and L2 runs in turns with the
network, and a share is that of its GFLOP/s, which is up to 6 % below what products in registers would reach.
One thread; each function inside the network, by CPU time: the least of some calls in a turn, then the middle
of all turns. Operations are counted by the definition; winograd needs fewer and may pass the peak.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from tvm import relax

from benchmarks.families.graph import Net
from benchmarks.families.table import FAMILIES
from benchmarks.in_network import Call, compiled, lowered, time_calls, workload_of, workloads_of
from toolchain.host import host_profile
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import Profile

NETWORKS = ("zoo:resnet-50", "zoo:mobilenet", "zoo:vgg-16")
_TURNS, _RUNS, _PEAK_RUNS = 15, 3, 60
# The convolution at the peak, 40 us long: 130 KB of operands. Winograd does not apply where taps are apart.
_INPUTS, _OUTPUTS, _SIZE, _TAPS, _APART = 64, 32, 14, 3, 2


def main() -> None:
    """Print a table for each network, the functions with the most time first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help=f"default: {', '.join(NETWORKS)}")
    parser.add_argument(
        "--family", action="append", default=[], choices=FAMILIES, help="a network of a family"
    )
    parser.add_argument("--below", type=float, default=1e9, help="only functions with a smaller share")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    profile = host_profile()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loop = _compiled(_at_the_peak(folder), profile, folder / "peak")
        models = {each: each for each in given.networks or (() if given.family else NETWORKS)}
        for family in given.family:
            models[family] = str(folder / f"{family}.onnx")
            onnx.save(FAMILIES[family].model(), models[family])
        for number, (network, file) in enumerate(models.items()):
            model = load_model(file, ModelOptions())
            found, peaks = shares(_compiled(model, profile, folder / str(number)), loop)
            _print(network, found, peaks, given.below)


@dataclass(frozen=True)
class Compiled:
    """A compiled network, and the floating-point operations of its contractions by their workload."""

    model: Model
    machine: relax.VirtualMachine
    flops: Mapping[str, int]
    workloads: Mapping[str, str]

    def time(self, runs: int, least: dict[Call, int]) -> None:
        """Run it; keep the least CPU time of each call in nanoseconds."""
        time_calls(self.machine, self.model, runs, least)

    def flops_of(self, function: str) -> int:
        """Return the operations of a function; 0 if it is no contraction."""
        return self.flops.get(workload_of(function, self.workloads), 0)


@dataclass(frozen=True)
class Reached:
    """What the calls of a function reach: their time in an inference, and their share of the peak."""

    ms: float
    calls: int
    gflops: float
    share: float


def shares(network: Compiled, loop: Compiled) -> tuple[dict[str, Reached], list[float]]:
    """Return what the contractions of a network reach, and the peaks of all turns in GFLOP/s."""
    times: dict[Call, list[int]] = defaultdict(list)
    ratios: dict[Call, list[float]] = defaultdict(list)
    peaks = []
    for _ in range(_TURNS):
        now: dict[Call, int] = {}
        least: dict[Call, int] = {}
        loop.time(_PEAK_RUNS, now)
        network.time(_RUNS, least)
        loop.time(_PEAK_RUNS, now)
        peak = max(loop.flops_of(name) / took for (_place, name), took in now.items())
        peaks.append(peak)
        for call, took in least.items():
            if flops := network.flops_of(call[1]):
                times[call].append(took)
                ratios[call].append(flops / took / peak)
    calls_of: dict[str, list[Call]] = defaultdict(list)
    for call in times:
        calls_of[call[1]].append(call)
    found = {}
    for name, calls in calls_of.items():
        ms = sum(statistics.median(times[call]) for call in calls) / 1e6
        share = statistics.fmean(statistics.median(ratios[call]) for call in calls)
        found[name] = Reached(ms, len(calls), network.flops_of(name) * len(calls) / ms / 1e6, share)
    return found, peaks


def _print(name: str, found: Mapping[str, Reached], peaks: Sequence[float], below: float) -> None:
    print(f"{name}: peak {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s")
    print(f"{'ms':>8} {'calls':>5} {'GFLOP/s':>8} {'share':>6}  function")
    for function, each in sorted(found.items(), key=lambda item: -item[1].ms):
        if each.share < below:
            print(f"{each.ms:8.3f} {each.calls:5d} {each.gflops:8.1f} {each.share:6.1%}  {function}")


def _compiled(model: Model, profile: Profile, folder: Path) -> Compiled:
    """Return a network as it is compiled without records."""
    with lowered(model, profile) as network:
        spaces = {task.workload: network.space(task) for task in network.tasks}
        points = {workload: space.points[0] for workload, space in spaces.items()}
        flops = {
            task.workload: task.flops
            for task in network.tasks
            if spaces[task.workload].contraction is not None
        }
        machine = compiled(network, points, profile, folder)
        return Compiled(model, machine, flops, workloads_of(network))


def _at_the_peak(folder: Path) -> Model:
    """Return a network of one convolution whose operands stay in L1 and L2."""
    file = folder / "peak.onnx"
    net = Net("peak", (1, _INPUTS, _SIZE, _SIZE))
    values = np.random.default_rng(0).standard_normal((_OUTPUTS, _INPUTS, _TAPS, _TAPS))
    window = {"kernel_shape": [_TAPS] * 2, "pads": [_APART] * 4, "dilations": [_APART] * 2}
    made = net.op("Conv", "y", [net.data, net.constant("w", values)], (1, _OUTPUTS, _SIZE, _SIZE), **window)
    onnx.save(net.finish(made), str(file))
    return load_model(str(file), ModelOptions())


if __name__ == "__main__":
    main()
