"""Networks on OpenCL devices, in numbers; each sub-command prints what one run of it measured or modelled.

    python benchmarks/opencl.py launches    a launch through edge-rt / by a plain program in C (goal 1.1)
    python benchmarks/opencl.py model       networks on a Mali-T860 by the model, beside goals

What PoCL measures is this machine's CPU: ratios of one run are meant, and nothing is said of a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def _launches(given: argparse.Namespace) -> object:
    from benchmarks.gpu.launches import launches

    return launches(given.launches, given.numbers, given.rounds, given.samples)


def _model(given: argparse.Namespace) -> object:
    from benchmarks.gpu.model import networks

    return networks(records=given.records)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    launched = commands.add_parser("launches", help="a launch through edge-rt beside a plain program")
    launched.add_argument("--launches", type=int, default=200, help="of a chain (default 200)")
    launched.add_argument("--numbers", type=int, default=1024, help="that each one works on (default 1024)")
    launched.add_argument("--rounds", type=int, default=6, help="of both in turn (default 6)")
    launched.add_argument("--samples", type=int, default=20, help="of a round (default 20)")
    launched.set_defaults(measure=_launches)
    modelled = commands.add_parser(
        "model", help="networks on a Mali-T860 by the model of the image mali-model"
    )
    modelled.add_argument("--records", action="store_true", help="take records where there are some")
    modelled.set_defaults(measure=_model)
    return parser


def main() -> None:
    """Print one JSON document: what was asked for, and how busy the machine was."""
    given = _parser().parse_args()
    before = os.getloadavg()[0]
    result = given.measure(given)
    print(json.dumps({**result, "load": [round(before, 2), round(os.getloadavg()[0], 2)]}, indent=2))


if __name__ == "__main__":
    main()
