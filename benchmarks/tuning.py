"""Tuning in numbers; `docs/benchmarks-tuning.md` has them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.tuners import measuring
from toolchain.tuning.options import TuneOptions

DATA = Path(__file__).parent / "data"


def main() -> None:
    """Do what was typed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    measure = parts.add_parser("measure", help="measure every point of the networks' tasks, once")
    measure.add_argument("raw", type=Path, help="file of JSON lines; what it has is not measured again")
    measure.add_argument("--networks", nargs="*", default=list(measuring.NETWORKS))
    measure.add_argument("--board", default="local")
    given = parser.parse_args()
    options = TuneOptions(threads=1, repeat=30, min_repeat_ms=1)
    measuring.measure(given.networks, given.board, given.raw, options)


if __name__ == "__main__":
    main()
