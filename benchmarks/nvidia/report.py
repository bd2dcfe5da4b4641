"""Writes the tables of docs/benchmarks-cuda.md from results and figures."""

from __future__ import annotations

from typing import Any

from benchmarks.latency.layers import task_of
from benchmarks.nvidia.goals import NOT, goals
from benchmarks.nvidia.gpus import LAUNCH_MS
from benchmarks.nvidia.launch_costs import launch_costs
from benchmarks.nvidia.results import Measured, median_ms
from benchmarks.nvidia.tables import cell, table
from benchmarks.nvidia.travel.plan import OURS

_OPERATORS = 12


def parts(results: Measured, figures: dict[str, Any] | None) -> dict[str, str]:
    """Return the text of each marked part of the page."""
    return {
        "goals": table(("figure", "goal", "seen", ""), goals(results, figures)),
        "machine": _machine(results),
        "latency": _latency(results),
        "operators": _operators(results),
        "kernels": _figures(figures),
        "launches": launch_costs(results, figures),
    }


def _machine(results: Measured) -> str:
    if not results.rows:
        return f"{NOT}: no GPU was there."
    machine, smi = results.machine, results.machine.get("nvidia_smi", {})
    words = ["**Emulated: nothing is said of a GPU.**"] if results.emulated else []
    words.append(f"{results.gpu_name or 'no GPU'}, {machine.get('cpus')} CPUs ({machine.get('cpu')})")
    if smi:
        words.append(
            f"driver {smi.get('driver_version')}, {smi.get('memory.total')} MiB, clocks up to "
            f"{smi.get('clocks.max.sm')} and {smi.get('clocks.max.mem')} MHz, {smi.get('power.limit')} W"
        )
    for who, each in machine.get("peers", {}).items():
        words.append(f"{who} {each['version']}" if each["version"] else f"{who} is not there")
    words.append(f"measured on {machine.get('date')}, {len(results.document['runs'])} runs")
    return "; ".join(words) + "."


def _latency(results: Measured) -> str:
    if not results.rows:
        return f"{NOT}."
    pieces = []
    places = dict.fromkeys((row["network"], row["batch"]) for row in results.rows)
    for network, batch in places:
        rows = sorted(results.measured(network=network, batch=batch), key=median_ms)
        lines = [_latency_line(row, results) for row in rows]
        head = ("contender", "arithmetic", "ms", "/ ours", "error", "MiB", "SM MHz", "W", "°C")
        failed = [
            cell(f"- {_named(row)}, {row['arithmetic']}: {row['status']}: {row['reason']}")
            for row in results.rows
            if (row["network"], row["batch"]) == (network, batch) and row["status"] != "measured"
        ]
        text = [f"### {network}, batch {batch}", table(head, lines), "\n".join(failed)]
        pieces += [each for each in text if each]
    return "\n\n".join(pieces)


def _latency_line(row: dict[str, Any], results: Measured) -> tuple[str, ...]:
    ours = results.best(OURS, row["network"], row["batch"], row["arithmetic"])
    seen = row.get("gpu", {})
    peak = row.get("peak_mib") or seen.get("memory.used", {}).get("max")
    return (
        _named(row),
        row["arithmetic"],
        f"{median_ms(row):.4f}",
        f"{median_ms(row) / ours:.2f}" if ours else "",
        f"{row['error']:.1e}",
        f"{peak:.0f}" if peak else "",
        *(_median(seen, name) for name in ("clocks.sm", "power.draw", "temperature.gpu")),
    )


def _median(seen: dict[str, Any], name: str) -> str:
    return f"{seen[name]['median']:.0f}" if name in seen else ""


def _named(row: dict[str, Any]) -> str:
    who = "**ours**" if row["who"] == OURS else row["who"]
    return f"{who}, {row['name']}{'' if row['graph'] else ', graph off'}"


def _operators(results: Measured) -> str:
    profiled = [row for row in results.measured(who=OURS, graph=True) if row.get("operators")]
    if not profiled:
        return f"{NOT}."
    pieces = []
    for row in profiled:
        head = ("operator", "calls", "ms", "roofline, ms", "ms / that")
        title = f"### {row['network']}, batch {row['batch']}, {row['name']}"
        slowest = sorted(row["operators"], key=lambda each: -each["ms"])[:_OPERATORS]
        pieces += [title, table(head, [_operator(each, row, results) for each in slowest])]
    return "\n\n".join(pieces)


def _operator(operator: dict[str, Any], row: dict[str, Any], results: Measured) -> tuple[str, ...]:
    functions = row["functions"]
    function = functions.get(task_of(operator["name"], functions))
    calls = operator["calls"]
    name = function["label"] if function else operator["name"]
    if function is None or results.gpu is None:
        return name, f"{calls:.0f}", f"{operator['ms']:.4f}", "", ""
    computed = results.gpu.floor_ms(function["bytes"], function["flops"], row["arithmetic"])
    least = calls * (computed + LAUNCH_MS)
    return name, f"{calls:.0f}", f"{operator['ms']:.4f}", f"{least:.4f}", f"{operator['ms'] / least:.1f}"


def _figures(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return f"{NOT}."
    lines = [
        (
            row["network"],
            row["name"],
            str(row["kernels"]),
            f"{row['weights_bytes'] / 1e6:.1f}",
            f"{row['beyond_bytes'] / 1e6:.2f}",
            f"{row['transformed_bytes'] / 1e6:.1f}",
        )
        for row in figures["networks"]
    ]
    head = ("network", "code", "kernels", "weights, MB", "bundle beyond them, MB", "of that winograd's, MB")
    return table(head, lines)
