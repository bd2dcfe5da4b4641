"""Computes the share of the cores' peak that each function of a profile reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toolchain.architectures.rates import ClusterRates
from toolchain.boards.inventory.rates import kept_rates
from toolchain.devices.device import CPU
from toolchain.measuring.answers import Operator
from toolchain.measuring.place import PlacedBundle

_FLOAT = "float32"
# Names of float32 products in measured rates, the widest first, with the CPU feature of code that uses them.
_BY_FEATURE = (("avx512", "avx512f"), ("avx2", "avx2"), ("neon", "asimd"), ("neon", "neon"), ("sse", ""))


def profiled(placed: PlacedBundle, operators: Iterable[Operator]) -> list[dict[str, Any]]:
    """Return the operators of a profile with their speed and their share of the cores' peak.

    Returns
    -------
    list
        For each operator `name`, `calls`, `ms`; `gflops`: 10^9 operations per second, counted by the
        definition (winograd needs fewer, and may pass the peak), None if their number is unknown; `products`:
        what its code multiplies by, `float32` or an instruction for bytes, None if the bundle does not say;
        and `share` of the peak of these products, None if it was not measured on the board or a device
        computed.
    """
    tasks = {name: task for task in placed.manifest.tasks for name in task.functions}
    peaks = _peaks(placed, {task.products for task in tasks.values() if task.products})
    rows = []
    for operator in operators:
        task = tasks.get(operator.name)
        count, products = (task.flops, task.products) if task else (0, None)
        gflops = count * operator.calls / operator.ms / 1e6 if count and operator.ms else None
        peak = peaks.get(products) if products else None
        share = gflops / peak if gflops and peak else None
        rows.append({**operator.model_dump(), "gflops": gflops, "products": products, "share": share})
    return rows


def peaks_of(placed: PlacedBundle, operators: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return peak GFLOP/s per arithmetic type in the profile, float32 first."""
    used = {operator["products"] for operator in operators if operator["share"] is not None}
    return _peaks(placed, sorted(used, key=lambda name: (name != _FLOAT, name)))


def peak_gflops(placed: PlacedBundle) -> float | None:
    """Return the measured peak of the cores that compute a bundle in float32, in GFLOP/s; None: not measured.

    An emulated board has none: it would be the speed of an emulator.
    """
    return _peaks(placed, [_FLOAT]).get(_FLOAT) if placed.manifest.dtype == _FLOAT else None


def measured_flops(placed: PlacedBundle) -> float | None:
    """Return the measured peak of one core of the cluster that computes, in FLOP/s; None: not measured."""
    cluster = _measured(placed)
    return cluster.peak_flops() if cluster else None


def _measured(placed: PlacedBundle) -> ClusterRates | None:
    if placed.board.emulated or placed.device != CPU:
        return None
    rates = kept_rates(placed.board.name)
    return rates.of_core(placed.cluster) if rates else None


def _peaks(placed: PlacedBundle, products: Iterable[str]) -> dict[str, float]:
    """Return the measured peaks of the cores that compute a bundle, in 10^9 operations per second.

    Peaks of float32 are those of the widest vectors that the bundle's code may use.
    """
    cluster = _measured(placed)
    if cluster is None:
        return {}
    required = placed.manifest.requires
    widest = next(name for name, feature in _BY_FEATURE if not feature or feature in required)
    cores = min(placed.threads, cluster.all.threads)
    of_one_core = {
        name: cluster.product_of(widest if name == _FLOAT else name, placed.threads) for name in products
    }
    return {name: gops * cores for name, gops in of_one_core.items() if gops is not None}
