"""Tuning in numbers; `docs/benchmarks-tuning.md` has them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.tuners import compare, measuring
from toolchain.tuning.options import TuneOptions

DATA = Path(__file__).parent / "data" / "packed.json"


def main() -> None:
    """Do what was typed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    measure = parts.add_parser("measure", help="measure every point of the networks' tasks, once")
    measure.add_argument("raw", type=Path, help="file of JSON lines; what it has is not measured again")
    measure.add_argument("--networks", nargs="*", default=list(measuring.NETWORKS))
    measure.add_argument("--board", default="local")
    collect = parts.add_parser("collect", help="make of a measured file what is replayed")
    collect.add_argument("raw", type=Path)
    collect.add_argument("--data", type=Path, default=DATA)
    tuners = parts.add_parser("tuners", help="trials until a point is within 5 % of the best")
    transfer = parts.add_parser("transfer", help="the same with and without records of other tasks")
    networks = parts.add_parser("networks", help="what whole runs of a network come to")
    for part in (tuners, transfer, networks):
        part.add_argument("--data", type=Path, default=DATA)
        part.add_argument("--seeds", type=int, default=10)
        part.add_argument("--spaces", nargs="*", default=[], help="beginnings of names; default: all")
    given = parser.parse_args()
    if given.part == "measure":
        options = TuneOptions(threads=1, repeat=30, min_repeat_ms=1)
        measuring.measure(given.networks, given.board, given.raw, options)
    elif given.part == "collect":
        measuring.collect(given.raw, given.data)
    elif given.part == "tuners":
        compare.tuners(given.data, given.seeds, tuple(given.spaces))
    elif given.part == "networks":
        compare.networks(given.data, given.seeds, tuple(given.spaces))
    else:
        compare.transfer(given.data, given.seeds, tuple(given.spaces))


if __name__ == "__main__":
    main()
