"""How near networks come to their limit on one core, function by function.

    python -m benchmarks.shares [NETWORK…] [--family NAME] [--all-functions] [--write FILE]

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
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from benchmarks.families.table import FAMILIES
from benchmarks.in_network import Call
from benchmarks.latency.document import write
from benchmarks.latency.tables import table
from benchmarks.limits import Compiled, Loops, Speeds, compile_network
from benchmarks.machine import machine
from benchmarks.words import note
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
_NEAR_ENOUGH = 0.85  # a function's share from which it is not listed
_LEAST_LOSS = 0.02  # of the network's time
_OF_NETWORKS = ("network", "ms", "at its limits", "share", "peak, GFLOP/s", "from afar, GB/s", "near, GB/s")
_OF_FUNCTIONS = ("network", "function", "calls", "ms", "lost ms", "share", "of the peak")


def main() -> None:
    """Print tables, or write them into a page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="such as zoo:mobilenet; default: those of the zoo")
    parser.add_argument("--family", action="append", default=[], choices=(*FAMILIES, "all"))
    parser.add_argument("--all-functions", action="store_true", help="list those near their limit, too")
    parser.add_argument("--write", type=Path, metavar="FILE", help="fill the tables of a Markdown file")
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    families = FAMILIES if "all" in given.family else given.family
    found: dict[str, Reached] = {}
    with tempfile.TemporaryDirectory() as name:
        folder, profile = Path(name), host_profile()
        loops = Loops(profile, folder)
        models = {each: each for each in given.networks or (() if given.family else NETWORKS)}
        for family in families:
            models[family] = str(folder / f"{family}.onnx")
            onnx.save(FAMILIES[family].model(), models[family])
        for number, (network, file) in enumerate(models.items()):
            made = compile_network(load_model(file, ModelOptions()), profile, folder / str(number))
            found[network] = reached(made, loops)
            note(f"{network}: {found[network].share:.2f}")
    text = _markdown(found, 1.0 if given.all_functions else _NEAR_ENOUGH)
    print(text)
    if given.write:
        write(given.write, {"limits": text}, "benchmarks/shares.py")


@dataclass
class Function:
    """What all calls of a function take and would take at their limit, in ns, and their share of the peak."""

    label: str
    calls: int = 0
    took: float = 0.0
    limit: float = 0.0
    of_peak: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The limit over the time."""
        return self.limit / self.took


@dataclass(frozen=True)
class Reached:
    """What the functions of a network reach, and the speeds of all turns."""

    functions: Mapping[str, Function]
    speeds: Sequence[Speeds]

    @property
    def took(self) -> float:
        """Nanoseconds of an inference."""
        return sum(each.took for each in self.functions.values())

    @property
    def limit(self) -> float:
        """Nanoseconds of an inference at the limits of its functions."""
        return sum(each.limit for each in self.functions.values())

    @property
    def share(self) -> float:
        """The limit over the time."""
        return self.limit / self.took


def reached(network: Compiled, loops: Loops) -> Reached:
    """Measure the functions of a network in turns with the loops."""
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
    found: dict[str, Function] = {}
    for (_place, name), each in turns.items():
        took, share, of_peak = map(statistics.median, zip(*each, strict=True))
        function = found.setdefault(name, Function(network.work_of(name).label or name))
        function.calls += 1
        function.took += took
        function.limit += share * took
        function.of_peak.append(of_peak)
    return Reached(found, speeds)


def _markdown(found: Mapping[str, Reached], below: float) -> str:
    """Return a table of networks, and one of what loses most in them."""
    cpu = machine([], Path(sys.executable))
    mean = statistics.geometric_mean(each.share for each in found.values())
    networks, functions = [], []
    for name, each in found.items():
        speeds = (_range(getattr(own, what) for own in each.speeds) for what in ("peak", "far", "near"))
        networks.append(
            [name, f"{each.took / 1e6:.2f}", f"{each.limit / 1e6:.2f}", f"{each.share:.2f}", *speeds]
        )
        for own in sorted(each.functions.values(), key=lambda function: function.limit - function.took):
            lost = own.took - own.limit
            if own.share < below and lost > _LEAST_LOSS * each.took:
                numbers = (f"{own.took / 1e6:.3f}", f"{lost / 1e6:.3f}", f"{own.share:.2f}")
                of_peak = f"{statistics.fmean(own.of_peak):.2f}"
                functions.append([name, own.label, str(own.calls), *numbers, of_peak])
    return "\n\n".join(
        [
            f"Measured on {cpu['date']}: {cpu['cpu']}, one core; ours at {cpu['commit']}. "
            f"Geometric mean of the shares: {mean:.2f}.",
            table(_OF_NETWORKS, networks),
            table(_OF_FUNCTIONS, functions),
        ]
    )


def _range(values: Iterable[float]) -> str:
    each = sorted(values)
    return f"{each[0]:.0f} to {each[-1]:.0f}"


if __name__ == "__main__":
    main()
