"""Our CPU code against onnxruntime, OpenVINO, ncnn and MNN, in one run: time, memory, size, time to build.

    make bench-cpu                                     the default networks; tables on stdout
    make bench-cpu BENCH="--write docs/benchmarks.md"  and into the text, with its figures

Each contender is a process of its own, pinned to as many cores as it has threads; they take turns in
blocks. Ours is what `toolchain build` makes without tuning records, run by libedge.so, the core of edge-rt.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.latency import document as text  # noqa: E402
from benchmarks.latency import tables  # noqa: E402
from benchmarks.latency.figure import figure  # noqa: E402
from benchmarks.latency.goals import GOALS  # noqa: E402
from benchmarks.latency.layers import functions, layers  # noqa: E402
from benchmarks.latency.measure import REFERENCE, Plan, field, measure  # noqa: E402
from benchmarks.latency.networks import MIB, PEERS_PYTHON, prepare  # noqa: E402
from benchmarks.latency.peak import peak  # noqa: E402
from benchmarks.machine import machine  # noqa: E402
from benchmarks.words import counts, listed, note  # noqa: E402
from toolchain.files.atomic import write_text  # noqa: E402

PEERS = ("onnxruntime", "openvino", "ncnn", "mnn")
NETWORKS = ("resnet-18", "resnet-50", "mobilenet", "squeezenet_v1.1", "inception_v3")
FIELD_S = 3.0


def options() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=listed(tuple(GOALS)), default=list(NETWORKS), metavar="N,N")
    parser.add_argument("--peers", type=listed(PEERS), default=list(PEERS), metavar="P,P")
    parser.add_argument("--threads", type=counts, default=[1, 2], metavar="N,N")
    parser.add_argument("--batch", type=counts, default=[1, 8], metavar="N,N")
    parser.add_argument("--rounds", type=int, default=4, help="blocks of each contender (default 4)")
    parser.add_argument("--runs", type=int, default=25, help="most inferences of a block (default 25)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block, about (default 0.5)")
    parser.add_argument("--layers", type=Path, metavar="DIR", help="write a figure of each network there")
    parser.add_argument("--json", action="store_true", help="print the numbers instead of tables")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the numbers")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: take kept numbers")
    parser.add_argument("--write", type=Path, metavar="FILE", help="fill the tables of a Markdown file")
    given = parser.parse_args()
    if REFERENCE not in given.peers:
        parser.error(f"--peers: {REFERENCE} is needed, its outputs are what the others are compared with")
    if given.write and not given.layers:
        given.layers = given.write.with_suffix("")
    return given


def measured(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return everything that was measured."""
    from toolchain.host import host_profile
    from toolchain.runtime import arch_of, ensure_runtime

    plan = Plan(given.rounds, given.runs, given.seconds)
    result: dict[str, Any] = {
        "machine": machine(given.peers, PEERS_PYTHON),
        "plan": vars(plan),
        "networks": [],
        "rows": [],
    }
    note("the machine's peak")
    result["peak"] = peak()
    library = ensure_runtime(arch_of(host_profile()), progress=note).library
    contenders = ["ours", *given.peers]
    for name in given.networks:
        for batch in given.batch:
            note(f"{name}, batch {batch}: building and converting")
            network = prepare(name, batch, contenders, folder / f"{name}-{batch}")
            for who, reason in network.reasons.items():
                note(f"{who}: {reason}")
            sizes = {who: round(mib, 2) for who, mib in network.sizes_mib.items()}
            entry = {"network": name, "batch": batch, "build_s": network.build_s, "sizes_mib": sizes}
            if network.bundle:
                entry["library_mib"] = round(network.models["ours"].stat().st_size / MIB, 2)
            result["networks"].append(entry)
            for threads in given.threads:
                note(f"{name}, batch {batch}, threads {threads}: measuring")
                row = {"network": name, "batch": batch, "threads": threads}
                row["contenders"], row["others"] = measure(network, contenders, threads, plan, library, note)
                if batch == 1:
                    row["field"] = field(network, threads, FIELD_S)
                    if threads == 1:
                        row["peak"] = peak()  # what the core did then
                result["rows"].append(row)
                if given.save:  # what there is counts, should it be cut short
                    write_text(given.save, json.dumps(result, indent=1))
                note("  ".join(f"{who} {entry['min_ms']:.2f}" for who, entry in row["contenders"].items()
                               if "min_ms" in entry))  # fmt: skip
            shutil.rmtree(network.folder)
    again = peak()  # the better of two: one may have been disturbed
    result["peak"] = {key: max(value, again[key]) for key, value in result["peak"].items()}
    return result


def draw(result: dict[str, Any], folder: Path) -> list[str]:
    """Write a figure of each network at batch 1 and one thread; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for row in result["rows"]:
        operators = row.get("field", {}).get("operators")
        if row["threads"] != 1 or not operators:
            continue
        found = layers(operators, functions(f"zoo:{row['network']}", row["batch"]))
        title = f"{row['network']}, batch 1, 1 thread, not tuned: GFLOP/s of each layer"
        names.append(f"{row['network']}.svg")
        write_text(folder / names[-1], figure(title, found, row["peak"]["steady_gflops"]))
    return names


def main() -> None:
    """Measure, then print, keep, write and draw what was asked for."""
    given = options()
    if given.read:
        result = json.loads(given.read.read_text())
    else:
        with tempfile.TemporaryDirectory(prefix="bench-cpu-") as folder:
            result = measured(given, Path(folder))
    if given.save:
        write_text(given.save, json.dumps(result, indent=1))
    print(json.dumps(result, indent=2) if given.json else tables.markdown(result))
    if given.write:
        text.write(given.write, {"tables": tables.markdown(result)}, "benchmarks/cpu.py")
    if given.layers:
        figures = draw(result, given.layers)
        if given.write:
            folder = given.layers.relative_to(given.write.parent)
            links = "\n\n".join(f"![{name}]({folder}/{name})" for name in figures)
            text.write(given.write, {"figures": links}, "benchmarks/cpu.py")


if __name__ == "__main__":
    main()
