"""How near each function of a profile comes to the peak of the cores that computed it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolchain.architectures.rates import ClusterRates
from toolchain.boards.inventory.rates import kept_rates
from toolchain.bundles.manifest import Manifest
from toolchain.devices.device import CPU
from toolchain.measuring.answers import Operator
from toolchain.measuring.place import PlacedBundle

# Names of float32 products in measured rates, the widest first, with the CPU feature of code that uses them.
_BY_FEATURE = (("avx512", "avx512f"), ("avx2", "avx2"), ("neon", "asimd"), ("neon", "neon"), ("sse", ""))


def profiled(placed: PlacedBundle, operators: Iterable[Operator]) -> list[dict[str, Any]]:
    """Return the operators of a profile with what they compute, and their share of the cores' peak.

    Returns
    -------
    list
        For each operator `name`, `calls`, `ms`; `gflops`: 10^9 floating-point operations per second, counted
        by the definition (winograd needs fewer, and may pass the peak), None if their number is unknown; and
        `share` of the peak that was measured on the board, None if it was not measured or a device computed.
    """
    manifest = placed.manifest
    flops = {name: task.flops for task in manifest.tasks for name in task.functions}
    peak = peak_gflops(placed)
    found = []
    for each in operators:
        count = flops.get(each.name, 0)
        gflops = count * each.calls / each.ms / 1e6 if count and each.ms else None
        share = gflops / peak if gflops and peak else None
        found.append({**each.model_dump(), "gflops": gflops, "share": share})
    return found


def peak_gflops(placed: PlacedBundle) -> float | None:
    """Return the measured peak of the cores that compute a bundle in float32, in GFLOP/s; None: not measured.

    An emulated board has none: what could be measured there are the speeds of an emulator.
    """
    cluster = _measured(placed)
    if cluster is None or placed.manifest.dtype != "float32":
        return None
    return _peak(cluster, placed.manifest, placed.threads)


def measured_flops(placed: PlacedBundle) -> float | None:
    """Return the measured peak of one core of the cluster that computes, in FLOP/s; None: not measured."""
    cluster = _measured(placed)
    return cluster.peak_flops() if cluster else None


def _measured(placed: PlacedBundle) -> ClusterRates | None:
    if placed.board.emulated or placed.device != CPU:
        return None
    rates = kept_rates(placed.board.name)
    return rates.of_core(placed.cluster) if rates else None


def _peak(cluster: ClusterRates, manifest: Manifest, threads: int) -> float | None:
    name = next(name for name, feature in _BY_FEATURE if not feature or feature in manifest.requires)
    each = cluster.product_of(name, threads)
    return None if each is None else each * min(threads, cluster.all.threads)
