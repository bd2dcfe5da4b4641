"""Networks on OpenCL devices, in numbers; each sub-command prints what one run of it measured or modelled.

    python benchmarks/opencl.py launches    a launch through edge-rt / by a plain program in C (goal 1.1)
    python benchmarks/opencl.py start       a network's second start / its first (goal 0.2)
    python benchmarks/opencl.py size        what OpenCL adds to edge-rt (goal 150 KB), to its start
    python benchmarks/opencl.py counts      what kernels execute in Oclgrind / the least there is (goal 1.02)
    python benchmarks/opencl.py model       networks on a Mali-T860 by the model, beside goals
    python benchmarks/opencl.py against     a network in our code / in TVM's own, DLight's (goal 0.05)
    python benchmarks/opencl.py candidates  a tuner's candidate, compiled by a warm process (goal 0.6 s)

What PoCL measures is this machine's CPU: ratios of one run are meant, and nothing is said of a GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.document import print_measured  # noqa: E402
from benchmarks.words import counts  # noqa: E402


def _launches(given: argparse.Namespace) -> object:
    from benchmarks.gpu.launches import launches

    rows = [launches(given.launches, numbers, given.rounds, given.samples) for numbers in given.numbers]
    return {"launches": given.launches, "kernels": rows}


def _start(given: argparse.Namespace) -> object:
    from benchmarks.gpu.starts import starts

    return starts(given.model, given.again)


def _size(given: argparse.Namespace) -> object:
    from benchmarks.gpu.sizes import sizes

    return sizes(given.arch, given.runs)


def _counts(_: argparse.Namespace) -> object:
    from benchmarks.gpu.counts import counts

    return counts()


def _model(given: argparse.Namespace) -> object:
    from benchmarks.gpu.model import networks

    return networks(records=given.records)


def _candidates(given: argparse.Namespace) -> object:
    from benchmarks.gpu.candidates import candidates

    return candidates(given.again)


def _against(given: argparse.Namespace) -> object:
    from benchmarks.gpu.against import against

    return against(given.model, given.rounds, given.samples)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    launched = commands.add_parser("launches", help="a launch through edge-rt beside a plain program")
    launched.add_argument("--launches", type=int, default=200, help="of a chain (default 200)")
    launched.add_argument(
        "--numbers", type=counts, default=[1024, 4096, 16384, 65536], metavar="N,N",
        help="that a launch adds 1 to (default 1024,4096,16384,65536)",
    )  # fmt: skip
    launched.add_argument("--rounds", type=int, default=6, help="of both in turn (default 6)")
    launched.add_argument("--samples", type=int, default=20, help="of a round (default 20)")
    launched.set_defaults(measure=_launches)
    started = commands.add_parser("start", help="a network's second start beside its first")
    started.add_argument("--model", default="zoo:mobilenet", help="default zoo:mobilenet")
    started.add_argument("--again", type=int, default=3, help="how often, after the first time (default 3)")
    started.set_defaults(measure=_start)
    sized = commands.add_parser("size", help="edge-rt with OpenCL and without; compiles for a minute or more")
    sized.add_argument("--arch", default="x86_64", choices=("x86_64", "aarch64", "armv7"))
    sized.add_argument("--runs", type=int, default=50, help="starts of each (default 50)")
    sized.set_defaults(measure=_size)
    counted = commands.add_parser("counts", help="what kernels of convolutions execute in a simulator")
    counted.set_defaults(measure=_counts)
    modelled = commands.add_parser(
        "model", help="networks on a Mali-T860 by the model of the image mali-model"
    )
    modelled.add_argument("--records", action="store_true", help="take records where there are some")
    modelled.set_defaults(measure=_model)
    compared = commands.add_parser("against", help="a network in our code beside TVM's own, DLight's")
    compared.add_argument("--model", default="zoo:mobilenet", help="default zoo:mobilenet")
    compared.add_argument("--rounds", type=int, default=3, help="of both in turn (default 3)")
    compared.add_argument("--samples", type=int, default=5, help="inferences of a round (default 5)")
    compared.set_defaults(measure=_against)
    built = commands.add_parser("candidates", help="what it takes to compile a tuner's candidate")
    built.add_argument("--again", type=int, default=5, help="how often, after the first time (default 5)")
    built.set_defaults(measure=_candidates)
    return parser


if __name__ == "__main__":
    print_measured(_parser())
