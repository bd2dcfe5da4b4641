"""Networks with code chosen by the class's rates, by those of this host, and by measuring each layer.

    python -m benchmarks.rates [NETWORK…] [--level x86-64-v3]

Needs `toolchain board probe local` before. One thread; the CPU time of each function inside the network, the
least of many calls in turns between the variants, so that other programs on this machine change little.
Functions with the same code in several variants share their least. "best" takes the fastest of the cheapest
few candidates of each algorithm and tile, which were measured in the network before.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.in_network import Call, Points, compiled, lowered, time_calls, workload_of, workloads_of
from toolchain.backends.packed.algorithms.policy import cost
from toolchain.backends.packed.backend import PackedNetwork
from toolchain.backends.packed.space import PackedSpace
from toolchain.boards.inventory.rates import kept_rates, with_rates
from toolchain.host import host_profile
from toolchain.models.load import Model, load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import Cluster, Profile

NETWORKS = ("zoo:resnet-18", "zoo:resnet-50", "zoo:inception_v3", "zoo:squeezenet_v1.1", "zoo:vgg-11")
_EACH = 2  # candidates of an algorithm and tile that are measured for "best"
_SEARCH_RUNS, _TURNS, _RUNS = 12, 8, 4


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--level", help="feature level of the code; default: this CPU's")
    given = parser.parse_args()
    rates = kept_rates("local")
    if rates is None:
        parser.error("this host was not measured: toolchain board probe local")
    profile = host_profile()
    if given.level:
        profile = profile.model_copy(update={"clusters": (Cluster(cpu=given.level, cores=1),)})
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in given.networks:
        model = load_model(name, ModelOptions())
        totals = compare(model, profile, with_rates(profile, rates))
        said = ", ".join(f"{variant} {ms:.3f} ms" for variant, ms in totals.items())
        ratios = ", ".join(
            f"{each} / best {totals[each] / totals['best']:.3f}" for each in ("class", "board")
        )
        print(f"{name}: {said}; {ratios}", flush=True)


def compare(model: Model, profile: Profile, measured: Profile) -> dict[str, float]:
    """Return the milliseconds of an inference for each way to choose its code."""
    variants = {"class": _defaults(model, profile), "board": _defaults(model, measured)}
    with tempfile.TemporaryDirectory() as name, lowered(model, profile) as network:
        folder = Path(name)
        variants["best"] = {**variants["class"], **_fastest(model, network, profile, folder)}
        machines = {
            variant: compiled(network, points, profile, folder / variant)
            for variant, points in variants.items()
        }
        times: dict[str, dict[Call, int]] = {variant: {} for variant in variants}
        for _ in range(_TURNS):
            for variant, machine in machines.items():
                time_calls(machine, model, _RUNS, times[variant])
        workloads = workloads_of(network)
    least: dict[tuple[Call, Any], int] = {}
    for keeps in (True, False):
        for variant, calls in times.items():
            for call, took in calls.items():
                key = (call, variants[variant].get(workload_of(call[1], workloads)))
                if keeps:
                    least[key] = min(took, least.get(key, took))
                else:
                    calls[call] = least[key]
    return {variant: sum(calls.values()) / 1e6 for variant, calls in times.items()}


def _defaults(model: Model, profile: Profile) -> Points:
    with lowered(model, profile) as network:
        return {task.workload: network.space(task).points[0] for task in network.tasks}


def _fastest(model: Model, network: PackedNetwork, profile: Profile, folder: Path) -> Points:
    """Return the fastest candidate of each task, measured in the network."""
    lists = {task.workload: _promising(network.space(task), network) for task in network.tasks}
    workloads = workloads_of(network)
    found: dict[str, tuple[int, Any]] = {}
    for turn in range(max(map(len, lists.values()))):
        points = {workload: each[turn % len(each)] for workload, each in lists.items()}
        calls: dict[Call, int] = {}
        time_calls(compiled(network, points, profile, folder / str(turn)), model, _SEARCH_RUNS, calls)
        sums: dict[str, int] = defaultdict(int)
        for (_place, name), took in calls.items():
            sums[workload_of(name, workloads)] += took
        for workload, point in points.items():
            if workload in sums and sums[workload] < found.get(workload, (1 << 62, None))[0]:
                found[workload] = (sums[workload], point)
    return {workload: point for workload, (_took, point) in found.items()}


def _promising(space: PackedSpace, network: PackedNetwork) -> Sequence[Any]:
    """Return the default, and the cheapest candidates of each algorithm and tile by the class's estimate."""
    contraction, machine = space.contraction, network.choices.machine
    groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for point in space.points:
        groups[point.algorithm, str(point.knobs.get("tile"))].append(point)
    if contraction is None or len(groups) < 2:
        return space.points[:1]

    def seconds(point: Any) -> float:
        estimated = cost(point, contraction, machine)
        return estimated.seconds if estimated else 0.0

    chosen = [point for each in groups.values() for point in sorted(each, key=seconds)[:_EACH]]
    return list(dict.fromkeys([space.points[0], *chosen]))


if __name__ == "__main__":
    main()
