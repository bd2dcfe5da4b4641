"""The measured document as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import geometric_mean
from typing import Any

from benchmarks.families.table import FAMILIES
from benchmarks.latency.tables import conditions, table

GOAL, MEAN_GOAL = 0.95, 0.65
Document = Mapping[str, Any]


def markdown(document: Document) -> str:
    """Return conditions and all tables."""
    parts = [conditions(document)]
    if document.get("avx2"):
        parts.append(
            "AVX2 code of both, on a CPU whose AVX-512, VNNI and AMX are hidden: ours is built for the class "
            "`x86_64`, onnxruntime gets a `cpuid` without them (benchmarks/latency/hidden.py)."
        )
    for threads in sorted({row["threads"] for row in document["rows"]}):
        rows = [row for row in document["rows"] if row["threads"] == threads]
        parts += [f"### {threads} thread{'s' if threads > 1 else ''}", summary(rows), times(rows)]
    parts += ["### Functions that cost more than onnxruntime's nodes, one thread", functions(document)]
    return "\n\n".join(part for part in parts if part) + "\n"


def ratios(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return ours / onnxruntime by CPU time and by the clock; None where one of them has no times."""
    ours, theirs = (row["contenders"].get(name, {}) for name in ("ours", "onnxruntime"))
    if "cpu_ms" not in ours or "cpu_ms" not in theirs:
        return None
    return ours["cpu_ms"] / theirs["cpu_ms"], ours["min_ms"] / theirs["min_ms"]


def summary(rows: list[Mapping[str, Any]]) -> str:
    """Return means, and who misses the goal."""
    known = {row["network"]: found for row in rows if (found := ratios(row))}
    if not known:
        return ""
    cpu, clock = (geometric_mean(pair[i] for pair in known.values()) for i in (0, 1))
    missed = [f"{name} ({pair[0]:.2f})" for name, pair in known.items() if pair[0] > GOAL]
    absent = [row["network"] for row in rows if row["network"] not in known]
    words = [f"Geometric mean over {len(known)} networks: {cpu:.2f} by CPU time, {clock:.2f} by the clock "
             f"(goal {MEAN_GOAL:g})."]  # fmt: skip
    words.append(f"Above {GOAL:g} by CPU time: {', '.join(missed) or 'none'}.")
    if absent:
        words.append(f"Without a time: {', '.join(absent)}.")
    return " ".join(words)


def times(rows: list[Mapping[str, Any]]) -> str:
    """Return times and ratios; what misses the goal is bold."""
    header = [
        "network",
        "what it brings",
        "ours ms",
        "onnxruntime ms",
        "by CPU time",
        "by the clock",
        "error",
    ]
    header += ["build s"]
    body = []
    for row in rows:
        ours, theirs = (row["contenders"].get(name, {}) for name in ("ours", "onnxruntime"))
        found = ratios(row)
        judged = [f"**{value:.2f}**" if value > GOAL else f"{value:.2f}" for value in found or ()]
        reason = ours.get("reason", "")
        body.append(
            [
                row["network"],
                FAMILIES[row["network"]].family if row["network"] in FAMILIES else "of the zoo",
                *(f"{entry['min_ms']:.2f}" if "min_ms" in entry else "-" for entry in (ours, theirs)),
                *(judged or ["-", "-"]),
                f"{ours['error']:.1e}" if "error" in ours else reason or "-",
                f"{row['build_s']:.0f}" if row.get("build_s") else "-",
            ]
        )
    return table(header, body)


def functions(document: Document) -> str:
    """Return every group of functions that costs more, the greatest losses of each network first."""
    body = []
    for row in document["rows"]:
        for entry in row.get("costlier", ()):
            ratio = entry["ours_ms"] / entry["theirs_ms"] if entry["theirs_ms"] else None
            named = list(dict.fromkeys(entry["functions"]))
            labels = "; ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
            body.append(
                [
                    row["network"],
                    f"{entry['kind']}: {labels}",
                    ", ".join(entry["rules"]),
                    f"{entry['ours_ms']:.3f}",
                    f"{entry['theirs_ms']:.3f}",
                    f"{ratio:.2f}" if ratio else "-",
                ]
            )
    header = ["network", "what", "rule", "ours ms", "onnxruntime ms", "ratio"]
    return table(header, body) if body else "None."
