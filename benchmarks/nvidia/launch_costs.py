"""Writes what launches and barriers of the whole grid cost, and what one kernel for a network would save."""

from __future__ import annotations

from typing import Any

from benchmarks.nvidia.goals import NOT, kernels_of
from benchmarks.nvidia.results import Launches, Measured
from benchmarks.nvidia.tables import cell, table
from benchmarks.nvidia.travel.plan import OURS

_CHAINS = {
    "graph": "kernels of a graph",
    "stream": "kernels, launched one by one",
    "barriers": "barriers of a kernel",
}
_NETWORK = "resnet-18"


def launch_costs(results: Measured, figures: dict[str, Any] | None) -> str:
    """Return the text about launches and barriers."""
    found = results.launches
    if found is None:
        return f"{NOT}."
    if found.status != "measured":
        return cell(f"{NOT}: {found.status}: {found.reason}")
    how = "cooperative" if found.cooperative else "plain"
    said = f"{found.blocks} blocks of {found.threads} threads; barriers in a {how} launch."
    late = [_CHAINS[name] for name, chain in found.chains.items() if chain.ahead < 1]
    if late:
        said += f" Python did not launch all in time, so these take less: {', '.join(late)}."
    pieces = [_table(found), said]
    if results.emulated:
        return "\n\n".join(["**Emulated: nothing is said of a GPU.**", *pieces])
    return "\n\n".join([*pieces, _saved(found, results, figures)]).strip()


def _table(found: Launches) -> str:
    lengths = sorted(found.chains["graph"].medians_us)
    head = ("chain of", *(f"{length}, µs" for length in lengths), "each, µs")
    lines = [
        (words, *(f"{chain.medians_us[length]:.1f}" for length in lengths), f"{chain.each_us:.2f}")
        for name, words in _CHAINS.items()
        for chain in [found.chains[name]]
    ]
    return table(head, lines)


def _saved(found: Launches, results: Measured, figures: dict[str, Any] | None) -> str:
    kernels = kernels_of(figures or {}, _NETWORK, "float32")
    if kernels is None:
        return ""
    launch, barrier = (found.chains[name].each_us for name in ("graph", "barriers"))
    saved = (kernels - 1) * (launch - barrier)
    ours = results.best(OURS, _NETWORK, 1, "float32")
    return (
        f"ResNet-18 in float32 as one kernel would save {kernels - 1} x ({launch:.2f} - {barrier:.2f}) = "
        f"{saved:.1f} µs{f' of {1000 * ours:.1f} µs' if ours else ''}."
    )
