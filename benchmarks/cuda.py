"""Networks on NVIDIA's GPUs, ours beside PyTorch's and TensorRT's: a pack, what needs no GPU, and the tables.

    python benchmarks/cuda.py --pack DIR              build a folder here, without a GPU
    python3 run.py                                    in it, on a machine with one: writes results.json
    python benchmarks/cuda.py --figures FILE          measure here what needs no GPU
    python benchmarks/cuda.py --report [RESULTS] [--beside FILE] [--write PAGE]

The machine with the GPU has a driver and Python 3.9 or newer; it needs no network, no TVM and nothing of this
project. Peers are measured if PyTorch or TensorRT is there. The command takes 8 minutes at most; started
again, it goes on where it stopped (run.py --help: its options).

The pack holds edge-rt, libraries, inputs and expected outputs: 64 MiB at most. Libraries embed weights as
their kernels read them, 87 MB for ResNet-18. Packed weights cannot be drawn from a seed without the code that
packs them, which needs TVM; so the weights repeat blocks of random numbers, and xz makes 2 MB of such a
library (benchmarks/nvidia/weights.py). The runner compares the sha256 of each with that of the one built.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
if sys.path[0] == str(Path(__file__).parent):
    sys.path[0] = str(ROOT)  # else this file would be the package `cuda` of NVIDIA's bindings

from benchmarks.latency import document  # noqa: E402
from benchmarks.nvidia.results import NOTHING, read_results  # noqa: E402
from benchmarks.words import counts, listed, note  # noqa: E402
from toolchain.errors import ToolchainError  # noqa: E402
from toolchain.files.atomic import write_text  # noqa: E402

NETWORKS = ("resnet-18", "mobilenet", "resnet-50")


def main(arguments: list[str] | None = None) -> None:
    """Build a pack, measure figures, or print and write the tables."""
    given = _options(arguments)
    try:
        if given.pack:
            _pack(given)
        elif given.figures:
            from benchmarks.nvidia.figures import figures

            write_text(given.figures, json.dumps(figures(given.networks, note), indent=1))
        else:
            _report(given)
    except ToolchainError as error:
        sys.exit(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))


def _pack(given: argparse.Namespace) -> None:
    from benchmarks.nvidia.building import Target
    from benchmarks.nvidia.pack import Wanted, write_pack
    from toolchain.models.zoo import ZOO

    networks = [ZOO[name] for name in given.networks]
    wanted = Wanted(networks, given.batch, Target(given.board, given.arch))
    members = write_pack(given.pack, wanted, note)["members"]
    size = sum(each["size"] for each in members.values()) / 2**20
    note(f"{given.pack}: {size:.1f} MiB; copy it to a machine with a GPU, and type there: python3 run.py")


def _report(given: argparse.Namespace) -> None:
    from benchmarks.nvidia.report import parts

    results = read_results(given.report) if given.report != Path() else NOTHING
    figures = json.loads(given.beside.read_text()) if given.beside else None
    made = parts(results, figures)
    print("\n\n".join(made.values()))
    if given.write:
        document.write(given.write, made, "benchmarks/cuda.py")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    does = parser.add_mutually_exclusive_group(required=True)
    does.add_argument("--pack", type=Path, metavar="DIR", help="build the folder; it must be new or empty")
    does.add_argument("--figures", type=Path, metavar="FILE", help="measure what needs no GPU (minutes)")
    does.add_argument(
        "--report", type=Path, nargs="?", const=Path(), metavar="RESULTS", help="print the tables"
    )
    parser.add_argument("--networks", type=listed(NETWORKS), default=list(NETWORKS), metavar="N,N")
    parser.add_argument("--batch", type=counts, default=[1, 8], metavar="N,N", help="default 1,8")
    parser.add_argument("--board", default="cuda", metavar="CLASS", help="board class (default cuda)")
    parser.add_argument("--arch", default="sm_90", metavar="ARCH,…", help="of the GPU (default sm_90)")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="with --report: what --figures wrote")
    parser.add_argument("--write", type=Path, metavar="FILE", help="with --report: fill the tables of a page")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
