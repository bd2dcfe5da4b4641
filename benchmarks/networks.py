"""Our CPU code against onnxruntime over networks outside the zoo, family by family, and over the zoo's.

    make bench-networks                                                     tables on stdout
    make bench-networks BENCH="--networks yolo,lstm --threads 1"            some of them
    make bench-networks BENCH="--write docs/benchmarks-networks.md"         and into the text
    make bench-networks BENCH="--avx2"     as on a CPU with AVX2 alone: AVX-512 is hidden from both

Both are processes of their own, pinned to as many cores as they have threads, and take turns in blocks.
Times are by the clock and by what all threads of a process took on CPUs: the second can be trusted on a
machine that does other work too. With one thread our functions stand beside onnxruntime's nodes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import onnx  # noqa: E402

from benchmarks.families.compare import costlier, joined, ours  # noqa: E402
from benchmarks.families.nodes import theirs  # noqa: E402
from benchmarks.families.page import markdown, ratios  # noqa: E402
from benchmarks.families.table import FAMILIES  # noqa: E402
from benchmarks.latency.hidden import hide  # noqa: E402
from benchmarks.latency.layers import functions  # noqa: E402
from benchmarks.latency.measure import Plan, field, measure  # noqa: E402
from benchmarks.latency.networks import Network, build, input_shape, toolchain  # noqa: E402
from benchmarks.latency.process import ContenderError  # noqa: E402
from benchmarks.machine import machine  # noqa: E402
from benchmarks.reporting import add_options, report  # noqa: E402
from benchmarks.words import counts, listed, note  # noqa: E402
from toolchain.files.atomic import write_text  # noqa: E402

PYTHON = ROOT / ".venv/bin/python"
CONTENDERS = ("ours", "onnxruntime")
ZOO = tuple(
    f"zoo:{name}"
    for name in ("resnet-18", "resnet-50", "mobilenet", "squeezenet_v1.1", "inception_v3", "vgg-16")
)
FIELD_S = 2.0


def options() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=listed((*FAMILIES, *ZOO)), default=list(FAMILIES), metavar="N,N",
                        help="default: those outside the zoo; or zoo:resnet-18 …")  # fmt: skip
    parser.add_argument("--threads", type=counts, default=[1, 2], metavar="N,N")
    parser.add_argument("--rounds", type=int, default=4, help="blocks of each contender (default 4)")
    parser.add_argument("--runs", type=int, default=25, help="most inferences of a block (default 25)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block, about (default 0.5)")
    parser.add_argument("--avx2", action="store_true", help="hide AVX-512, VNNI and AMX of this CPU")
    add_options(parser)
    return parser.parse_args()


def prepare(name: str, folder: Path, board: str = "local") -> Network:
    """Write a network and its seeded input, and build it with our command line."""
    folder.mkdir()
    path = folder / "model.onnx"
    if name in ZOO:
        toolchain(folder, "model", "export", name, "-o", path)
    else:
        onnx.save(FAMILIES[name].model(), str(path))
    np.save(folder / "input.npy", sample(path, FAMILIES[name].tokens if name in FAMILIES else 0))
    network = Network(name, 1, folder, path, models={"onnxruntime": path})
    try:
        build(network, [path], board)
    except ContenderError as error:
        network.reasons["ours"] = str(error)
    return network


def sample(model: Path, tokens: int) -> np.ndarray[Any, Any]:
    """Return a seeded input: real numbers, or words out of `tokens`."""
    random, shape = np.random.default_rng(0), input_shape(model)
    return random.integers(0, tokens, shape) if tokens else random.standard_normal(shape).astype(np.float32)


def measured_network(
    network: Network,
    plan: Plan,
    threads: list[int],
    library: Path,
    board: str = "local",
    hidden: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each number of threads; with one, the functions that cost more.

    Parameters
    ----------
    board
        The board or class that the network was built for.
    hidden
        Environment of onnxruntime's processes.
    """
    rows = []
    for count in threads:
        row: dict[str, Any] = {"network": network.name, "batch": 1, "threads": count}
        row["contenders"], row["others"] = measure(
            network, list(CONTENDERS), count, plan, library, note, PYTHON, peers_env=hidden
        )
        row["build_s"] = network.build_s
        if count == 1 and network.bundle and "cpu_ms" in row["contenders"].get("ours", {}):
            row["costlier"] = _costlier(network, row["contenders"], board, hidden)
        found = ratios(row)
        note(f"{network.name}, threads {count}: " + ("{:.2f} by CPU time, {:.2f} by the clock".format(*found)
             if found else str(row["contenders"].get("ours"))))  # fmt: skip
        rows.append(row)
    return rows


def _costlier(
    network: Network, contenders: Mapping[str, Any], board: str, hidden: Mapping[str, str] | None
) -> list[dict[str, Any]]:
    profile = field(network, 1, FIELD_S)
    if "operators" not in profile:
        return []
    nodes = theirs(network.onnx, network.folder / "input.npy", PYTHON, hidden)
    took = [contenders[name]["cpu_ms"] for name in CONTENDERS]
    known = functions(str(network.onnx), board=board)
    found = joined(ours(profile["operators"], known, nodes), nodes, *took)
    return [
        {"kind": key[0], **vars(group), "rules": sorted(group.rules)}
        for key, group in costlier(found, took[1])
    ]


def measured(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return everything that was measured."""
    from toolchain.host import host_profile
    from toolchain.runtime import arch_of, ensure_runtime

    plan = Plan(given.rounds, given.runs, given.seconds)
    result: dict[str, Any] = {"machine": machine(["onnxruntime"], PYTHON), "plan": vars(plan), "rows": []}
    result["avx2"] = given.avx2
    hidden, board = (hide(folder, PYTHON), "x86_64") if given.avx2 else (None, "local")
    library = ensure_runtime(arch_of(host_profile()), progress=note).library
    for name in given.networks:
        note(f"{name}: building")
        network = prepare(name, folder / name, board)
        for who, reason in network.reasons.items():
            note(f"{who}: {reason}")
        result["rows"] += measured_network(network, plan, given.threads, library, board, hidden)
        if given.save:  # what there is counts, should it be cut short
            write_text(given.save, json.dumps(result, indent=1))
        shutil.rmtree(network.folder)
    return result


def main() -> None:
    """Measure, then print, keep and write what was asked for."""
    given = options()
    report(given, "benchmarks/networks.py", measured, markdown, "avx2" if given.avx2 else "tables")


if __name__ == "__main__":
    main()
