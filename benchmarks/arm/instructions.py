"""Instructions executed per inference on Arm cores: ours beside onnxruntime's and ncnn's, under qemu.

    make bench-arm                                              every network and core; a table on stdout
    make bench-arm BENCH="--networks mobilenet --layers"        ours by layer
    make bench-arm BENCH="--write docs/benchmarks-arm.md"       into the text

A count is no time: it knows neither caches nor what a core does side by side. The second inference of one
thread is counted; ours is what `toolchain build` makes without records.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.arm import tables
from benchmarks.arm.counting import build_plugin, by_function, placed, total
from benchmarks.arm.failure import ArmError, run
from benchmarks.arm.loops import hot_loops
from benchmarks.arm.model import judged
from benchmarks.arm.ours import Built, build, count_ours
from benchmarks.arm.peers import PEERS, convert_to_ncnn, count_peer, unpack_system
from toolchain.bundles.read import read_bundle
from toolchain.files.atomic import write_text

NETWORKS = ("mobilenet", "resnet-18")
BOARDS = {"cortex-a72": "rk3399", "cortex-a53": "rk3399", "cortex-a76": "raspberrypi5", "cortex-a9": "pynq"}
_ALONE = "cortex-a9"  # nobody publishes a peer for it
WRONG = 0.01  # of the largest output


@dataclass(frozen=True)
class Plan:
    """What to count."""

    networks: list[str]
    cores: list[str]
    peers: list[str]
    options: list[str]
    layers: bool


def note(words: str) -> None:
    """Say on stderr how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def counted(plan: Plan, folder: Path) -> list[dict[str, Any]]:
    """Return a row for each network and core."""
    plugin = build_plugin(folder)
    root = None
    if plan.peers and any(core != _ALONE for core in plan.cores):
        note("unpacking Debian, onnxruntime and ncnn for arm64")
        root = unpack_system(folder)
    rows = []
    for network in plan.networks:
        models: dict[str, Path] = {}
        for core in plan.cores:
            here = folder / network / core
            here.mkdir(parents=True)
            note(f"{network}, {core}: ours")
            built = build(f"zoo:{network}", BOARDS[core], core, here, *plan.options)
            row: dict[str, Any] = {
                "network": network,
                "core": core,
                "ours": _ours(plugin, built, here, plan.layers),
            }
            if root is not None and core != _ALONE:
                bundle = read_bundle(built.bundle)
                (given,), (expected, *_) = bundle.sample.values(), bundle.expected.values()
                models = models or _models(network, given.shape, here, plan.peers)
                for peer in plan.peers:
                    note(f"{network}, {core}: {peer}")
                    blocks, error = count_peer(plugin, peer, core, root, models[peer], given, expected)
                    row[peer] = _checked(peer, network, error) | asdict(total(blocks))
            rows.append(row)
    return rows


def _ours(plugin: Path, built: Built, folder: Path, layers: bool) -> dict[str, Any]:
    blocks, error = count_ours(plugin, built, folder)
    compiled = built.objects[0]
    result = _checked("ours", built.library.name, error) | asdict(total(blocks))
    if layers:
        found = by_function(blocks, built.library, compiled)
        result["layers"] = {name: asdict(count) for name, count in found.items()}
    runs = placed(blocks, built.library, compiled)
    loops = [judged(loop, runs, built.cpu) for loop in hot_loops(compiled)]
    result["loops"] = [asdict(loop) for loop in loops if loop.executed]
    return result


def _checked(who: str, network: str, error: float) -> dict[str, Any]:
    if not error <= WRONG:
        raise ArmError(f"{who} computes {network} wrong: off by {error:.2g} of the largest output")
    return {"error": error}


def _models(network: str, shape: tuple[int, ...], folder: Path, peers: list[str]) -> dict[str, Path]:
    onnx = folder / "model.onnx"
    run([sys.executable, "-m", "toolchain", "model", "export", f"zoo:{network}", "-o", onnx])
    return {peer: convert_to_ncnn(onnx, shape, folder / peer) if peer == "ncnn" else onnx for peer in peers}


def _words(allowed: tuple[str, ...]) -> Any:
    def parse(given: str) -> list[str]:
        words = given.split(",") if given else []
        if unknown := set(words) - set(allowed):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(allowed)}")
        return words

    return parse


def main() -> int:
    """Count, and print or write; 1 where that is not possible."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--networks", default=list(NETWORKS), type=lambda given: given.split(","), metavar="N,N"
    )
    parser.add_argument("--cores", default=list(BOARDS), type=_words(tuple(BOARDS)), metavar="C,C")
    parser.add_argument("--peers", default=list(PEERS), type=_words(PEERS), metavar="P,P", help="'': none")
    parser.add_argument("--winograd", choices=("auto", "off"), default="auto", help="of ours")
    parser.add_argument("--layers", action="store_true", help="ours by layer, and its hot loops")
    parser.add_argument("--json", action="store_true", help="print the numbers instead of tables")
    parser.add_argument("--write", type=Path, metavar="FILE", help="fill the tables of a Markdown file")
    given = parser.parse_args()
    plan = Plan(given.networks, given.cores, given.peers, ["--winograd", given.winograd], given.layers)
    try:
        with tempfile.TemporaryDirectory(prefix="toolchain-arm-") as folder:
            rows = counted(plan, Path(folder))
    except ArmError as error:
        print(f"benchmarks/arm: {error}", file=sys.stderr)
        return 1
    if given.write:
        write_text(given.write, tables.fill(given.write.read_text(), tables.markdown(rows)))
    if given.json:
        print(json.dumps(rows, indent=2))
    elif not given.write:
        print(tables.markdown(rows))
        if given.layers:
            print(tables.layers(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
