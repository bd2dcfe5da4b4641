"""How near networks come to their limit on one core, function by function.

    python -m benchmarks.shares [NETWORK…] [--family NAME] [--below 0.85] [--brief]

The limit of a function is the longer of two times: that of its multiply-accumulates at the core's peak, by
the algorithm that needs fewest; and that of reading its weights, and all else that it reads and writes, once.
The limit of a network is the sum. Nothing reaches it: transforms of winograd, activations and waiting for
loads are not in it. `of peak` counts products by the definition; winograd may pass the peak.

Peak and bandwidth of a core change within seconds where others share the machine: on a virtual host the same
code gave 118 to 179 GFLOP/s within minutes. So three loops run in turns with the network: a convolution whose
operands stay in L1 and L2, up to 6 % below what products in registers would reach; a dense layer of one row
whose weights are as large as the network's, 16 MiB at least; and one of 1 MiB. Constants and values of more
than 1 MiB are read at the speed of the second, all else at that of the third. Times are CPU times of one
thread: the least of some calls in a turn, then the middle of all turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from benchmarks.families.table import FAMILIES
from benchmarks.in_network import Call
from benchmarks.limits import Compiled, Loops, Speeds, compile_network
from toolchain.host import host_profile
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions

NETWORKS = (
    "zoo:resnet-18",
    "zoo:resnet-50",
    "zoo:mobilenet",
    "zoo:squeezenet_v1.1",
    "zoo:inception_v3",
    "zoo:vgg-16",
)
_TURNS, _RUNS = 15, 3


def main() -> None:
    """Print a table for each network, the functions that lose most time first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="such as zoo:mobilenet; default: those of the zoo")
    parser.add_argument("--family", action="append", default=[], choices=(*FAMILIES, "all"))
    parser.add_argument("--below", type=float, default=1e9, help="only functions with a smaller share")
    parser.add_argument("--brief", action="store_true", help="a line for each network")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    families = FAMILIES if "all" in given.family else given.family
    with tempfile.TemporaryDirectory() as name:
        folder, profile = Path(name), host_profile()
        loops = Loops(profile, folder)
        models = {each: each for each in given.networks or (() if given.family else NETWORKS)}
        for family in families:
            models[family] = str(folder / f"{family}.onnx")
            onnx.save(FAMILIES[family].model(), models[family])
        for number, (network, file) in enumerate(models.items()):
            made = compile_network(load_model(file, ModelOptions()), profile, folder / str(number))
            _print(network, made, shares(made, loops), given.below, given.brief)


@dataclass
class Function:
    """What all calls of a function take and would take at their limit, in ns, and their share of the peak."""

    calls: int = 0
    took: float = 0.0
    limit: float = 0.0
    of_peak: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The limit over the time."""
        return self.limit / self.took


def shares(network: Compiled, loops: Loops) -> tuple[dict[str, Function], list[Speeds]]:
    """Return what the functions of a network reach, and the speeds of all turns."""
    turns: dict[Call, list[tuple[float, float, float]]] = defaultdict(list)
    speeds, far = [], loops.far(network)
    for _ in range(_TURNS):
        before = loops.speeds(far)
        times = network.times(_RUNS)
        now = before.faster(loops.speeds(far))
        speeds.append(now)
        for call, took in times.items():
            work = network.work_of(call[1])
            turns[call].append((took, now.limit(work) / took, work.flops / took / now.peak))
    found: dict[str, Function] = defaultdict(Function)
    for (_place, name), each in turns.items():
        took, share, of_peak = map(statistics.median, zip(*each, strict=True))
        function = found[name]
        function.calls += 1
        function.took += took
        function.limit += share * took
        function.of_peak.append(of_peak)
    return found, speeds


def _print(
    name: str, network: Compiled, reached: tuple[dict[str, Function], list[Speeds]], below: float, brief: bool
) -> None:
    found, speeds = reached
    took, limit = (sum(getattr(each, what) for each in found.values()) for what in ("took", "limit"))
    print(f"{name}: {took / 1e6:.2f} ms, at its limits {limit / 1e6:.2f}: {limit / took:.2f}", end="; ")
    ranges = {what: sorted(getattr(each, what) for each in speeds) for what in ("peak", "far", "near")}
    print(
        ", ".join(f"{what} {_range(each)}" for what, each in ranges.items()), "GFLOP/s and GB/s", flush=True
    )
    if brief:
        return
    print(f"{'ms':>8} {'lost':>7} {'calls':>5} {'share':>6} {'of peak':>7}  function")
    for function, each in sorted(found.items(), key=lambda item: item[1].limit - item[1].took):
        if each.share < below:
            numbers = f"{each.took / 1e6:8.3f} {(each.took - each.limit) / 1e6:7.3f} {each.calls:5d}"
            shares_of = f"{each.share:6.2f} {statistics.fmean(each.of_peak):7.2f}"
            print(f"{numbers} {shares_of}  {function} {network.work_of(function).label}")


def _range(values: Sequence[float]) -> str:
    return f"{values[0]:.0f} to {values[-1]:.0f}"


if __name__ == "__main__":
    main()
