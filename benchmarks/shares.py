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
from pathlib import Path

import numpy as np
import onnx
from tvm import relax

from benchmarks.families.graph import Net
from benchmarks.families.table import FAMILIES
from benchmarks.in_network import Call, compiled, lowered, time_calls, workload_of
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
        for network in given.networks or (() if given.family else NETWORKS):
            _print(network, load_model(network, ModelOptions()), profile, folder / "zoo", given.below)
        for family in given.family:
            file = folder / f"{family}.onnx"
            onnx.save(FAMILIES[family].model(), str(file))
            _print(family, load_model(str(file), ModelOptions()), profile, folder / "family", given.below)


def _print(name: str, model: Model, profile: Profile, folder: Path, below: float) -> None:
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as made:
        found, peaks = shares(model, profile, Path(made))
    print(f"{name}: peak {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s")
    print(f"{'ms':>8} {'calls':>5} {'GFLOP/s':>8} {'share':>6}  function")
    for function, (ms, calls, gflops, share) in sorted(found.items(), key=lambda each: -each[1][0]):
        if share < below:
            print(f"{ms:8.3f} {calls:5d} {gflops:8.1f} {share:6.1%}  {function}")


def shares(
    model: Model, profile: Profile, folder: Path
) -> tuple[dict[str, tuple[float, int, float, float]], list[float]]:
    """Return what the contractions of a network reach, and the peaks of all turns in GFLOP/s.

    Returns
    -------
    dict
        Function -> ms of an inference, calls of an inference, GFLOP/s, share of the peak.
    """
    loop_model = _at_the_peak(folder)
    machine, flops = _compiled(model, profile, folder / "network")
    loop, loop_flops = _compiled(loop_model, profile, folder / "peak")
    of_loop = max(loop_flops.values())
    times: dict[Call, list[int]] = defaultdict(list)
    ratios: dict[Call, list[float]] = defaultdict(list)
    peaks = []
    for _ in range(_TURNS):
        now: dict[Call, int] = {}
        least: dict[Call, int] = {}
        time_calls(loop, loop_model, _PEAK_RUNS, now)
        time_calls(machine, model, _RUNS, least)
        time_calls(loop, loop_model, _PEAK_RUNS, now)
        peak = of_loop / min(took for (_place, name), took in now.items() if loop_flops.get(name))
        peaks.append(peak)
        for call, took in least.items():
            if flops.get(call[1]):
                times[call].append(took)
                ratios[call].append(flops[call[1]] / took / peak)
    calls_of = defaultdict(list)
    for call in times:
        calls_of[call[1]].append(call)
    found = {}
    for name, calls in calls_of.items():
        ms = sum(statistics.median(times[call]) for call in calls) / 1e6
        share = statistics.fmean(statistics.median(ratios[call]) for call in calls)
        found[name] = (ms, len(calls), flops[name] * len(calls) / ms / 1e6, share)
    return found, peaks


def _compiled(model: Model, profile: Profile, folder: Path) -> tuple[relax.VirtualMachine, dict[str, int]]:
    """Return a network compiled without records, and the operations of its contractions' functions."""
    with lowered(model, profile) as network:
        points = {task.workload: network.space(task).points[0] for task in network.tasks}
        machine = compiled(network, points, profile, folder)
        contractions = {
            task.workload: task.flops for task in network.tasks if network.space(task).contraction is not None
        }
        workloads = {name: task.workload for task in network.tasks for name in task.functions}
    return machine, {name: contractions.get(workload_of(name, workloads), 0) for name in workloads}


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
