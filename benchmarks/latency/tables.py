"""The measured document as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.latency.goals import BUILD_S, GOALS, MEMORY_RATIO
from benchmarks.latency.ratios import fastest, ratio

Document = Mapping[str, Any]
_NAMES = {"ours": "ours", "onnxruntime": "onnxruntime", "openvino": "OpenVINO", "ncnn": "ncnn", "mnn": "MNN"}
_DISTURBED = 0.1  # CPUs that other processes take, above which a row says so


def markdown(document: Document) -> str:
    """Return conditions and all tables."""
    parts = [conditions(document)]
    for batch in sorted({row["batch"] for row in document["rows"]}):
        for threads in sorted({row["threads"] for row in document["rows"]}):
            rows = [row for row in document["rows"] if (row["batch"], row["threads"]) == (batch, threads)]
            if rows:
                parts += [f"### Batch {batch}, {_count(threads, 'thread')}", latency(rows, batch)]
    parts += ["### Outputs", errors(document)]
    parts += ["### Memory", memory(document), "### Size and build", size(document)]
    if agree := agreement(document):
        parts += ["### `toolchain bench --profile` beside it", agree]
    if reasons := absent(document):
        parts += ["### Not measured", reasons]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def conditions(document: Document) -> str:
    """Return when, where and how it was measured."""
    machine, plan = document["machine"], document["plan"]
    peak = document.get("peak")
    words = [
        f"Measured on {machine['date']}: {machine['cpu']}, {_count(machine['cores'], 'core')}, "
        f"{machine['memory_gib']:.0f} GiB; ours at {machine['commit']}."
    ]
    if peak:
        words.append(
            f"One core computes at most {peak['gflops']:.0f} GFLOP/s (float32, fused multiply-adds in "
            f"registers), {peak['steady_gflops']:.0f} in the middle of many tries, and reads "
            f"{peak['gbytes']:.1f} GB/s from memory."
        )
    versions = ", ".join(
        f"{_NAMES.get(name, name)} {version}" for name, version in machine["versions"].items()
    )
    words.append(f"Peers: {versions}.")
    words.append(
        f"Each contender had {plan['rounds']} blocks of up to {plan['runs']} inferences or "
        f"{plan['seconds']:g} s, in turns."
    )
    if disturbed := [row for row in document["rows"] if row.get("others", 0) > _DISTURBED]:
        where = ", ".join(f"{row['network']} {row['batch']}/{row['threads']}" for row in disturbed)
        most = max(row["others"] for row in disturbed)
        words.append(f"Other work took up to {most:.1f} CPUs meanwhile (network batch/threads: {where}).")
    return " ".join(words)


def latency(rows: Sequence[Mapping[str, Any]], batch: int) -> str:
    """Return times and ratios, with the goals beside them for a batch of one."""
    peers = [name for name in _NAMES if name != "ours" and any(name in row["contenders"] for row in rows)]
    header = ["network", "ours ms", *(f"{_NAMES[peer]} ms" for peer in peers), "ours / onnxruntime"]
    header += ["ours / fastest", "medians"]
    body = []
    for row in rows:
        contenders, goal = row["contenders"], GOALS.get(row["network"]) if batch == 1 else None
        best = fastest(contenders)
        ours = ratio(contenders, "onnxruntime")
        against = ratio(contenders, best) if best else None
        medians = [ratio(contenders, peer, "median_ms") for peer in ("onnxruntime", best) if peer]
        body.append(
            [
                row["network"],
                *(_ms(contenders.get(name, {}).get("min_ms")) for name in ("ours", *peers)),
                _judged(ours, goal.onnxruntime if goal else None),
                _judged(against, goal.fastest if goal else None) + (f" {_NAMES[best]}" if best else ""),
                " and ".join(_number(value) for value in medians),
            ]
        )
    return table(header, body)


def errors(document: Document) -> str:
    """Return how far each contender's output lies from onnxruntime's, the worst of each network."""
    rows = document["rows"]
    names = [
        name for name in _NAMES if name != "onnxruntime" and any(name in row["contenders"] for row in rows)
    ]
    body = []
    for network in dict.fromkeys(row["network"] for row in rows):
        entries = [row["contenders"] for row in rows if row["network"] == network]
        found = [
            [entry[name]["error"] for entry in entries if "error" in entry.get(name, {})] for name in names
        ]
        body.append([network, *(_number(max(each, default=None), "{:.1e}") for each in found)])
    return table(["network", *(_NAMES[name] for name in names)], body)


def memory(document: Document) -> str:
    """Return peak memory: of the processes that were measured, and of edge-rt."""
    rows = document["rows"]
    header = ["network", "batch", "threads", "ours MiB", "edge-rt MiB"]
    peers = [name for name in _NAMES if name != "ours" and any(name in row["contenders"] for row in rows)]
    header += [f"{_NAMES[peer]} MiB" for peer in peers]
    header += ["ours / onnxruntime", "edge-rt / onnxruntime"]
    body = []
    for row in rows:
        contenders = row["contenders"]
        program = {**contenders, "ours": row.get("field", {})}
        body.append(
            [
                row["network"],
                str(row["batch"]),
                str(row["threads"]),
                _mib(contenders.get("ours", {}).get("peak_mib")),
                _mib(program["ours"].get("peak_mib")),
                *(_mib(contenders.get(peer, {}).get("peak_mib")) for peer in peers),
                _judged(ratio(contenders, "onnxruntime", "peak_mib"), MEMORY_RATIO),
                _judged(ratio(program, "onnxruntime", "peak_mib"), MEMORY_RATIO),
            ]
        )
    return table(header, body)


def size(document: Document) -> str:
    """Return the size of what is deployed and the seconds of `toolchain build`, cold."""
    networks = document["networks"]
    names = [name for name in _NAMES if any(name in entry["sizes_mib"] for entry in networks)]
    files = {"ours": "bundle MiB", "onnxruntime": "ONNX MiB", "openvino": None}
    columns = [name for name in names if files.get(name, "") is not None]
    header = ["network", "batch", *(files.get(name, f"{_NAMES[name]} MiB") or "" for name in columns)]
    header += ["bundle / ONNX", "build s"]
    body = []
    for entry in networks:
        sizes = {name: {"mib": mib} for name, mib in entry["sizes_mib"].items()}
        goal = BUILD_S.get(entry["network"]) if entry["batch"] == 1 else None
        body.append(
            [
                entry["network"],
                str(entry["batch"]),
                *(_mib(entry["sizes_mib"].get(name)) for name in columns),
                _number(ratio(sizes, "onnxruntime", "mib")),
                _judged(entry["build_s"], goal, "{:.1f}"),
            ]
        )
    return table(header, body)


def agreement(document: Document) -> str:
    """Return how far edge-rt's own measurement lies from the one in turns; empty where there is none."""
    rows = [row for row in document["rows"] if "min_ms" in row.get("field", {})]
    rows = [row for row in rows if "min_ms" in row["contenders"].get("ours", {})]
    header = ["network", "threads", "in turns ms", "bench ms", "difference", "sum of the profile ms"]
    body = []
    for row in rows:
        ours, bench = row["contenders"]["ours"]["min_ms"], row["field"]["min_ms"]
        profile = row["field"]["profile_ms"]
        cells = [_ms(ours), _ms(bench), f"{bench / ours - 1:+.1%}", _ms(profile)]
        body.append([row["network"], str(row["threads"]), *cells])
    return table(header, body) if body else ""


def absent(document: Document) -> str:
    """Return who could not run what, and why; empty where everybody ran everything."""
    lines = []
    for row in document["rows"]:
        for name, entry in row["contenders"].items():
            if "reason" in entry:
                where = f"{row['network']}, batch {row['batch']}, {_count(row['threads'], 'thread')}"
                lines.append(f"- {_NAMES[name]}, {where}: {entry['reason']}")
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _number(value: float | None, form: str = "{:.2f}") -> str:
    return "-" if value is None else form.format(value)


def _judged(value: float | None, goal: float | None, form: str = "{:.2f}") -> str:
    """Return a number with its goal; a number that misses it is bold."""
    if value is None or goal is None:
        return _number(value, form)
    text = form.format(value)
    shown = text if value <= goal else f"**{text}**"
    return f"{shown} (≤ {goal:g})"


def _ms(value: float | None) -> str:
    return _number(value, "{:.1f}" if value and value >= 100 else "{:.2f}")


def _mib(value: float | None) -> str:
    return _number(value, "{:.0f}" if value and value >= 10 else "{:.1f}")
