"""Networks on a VTA, in numbers; each sub-command prints what one run of it modelled or measured.

    python benchmarks/vta.py region        the region's cycles by the model (goals 1.15 and 1.05 x 75.7 ms)
    python benchmarks/vta.py simulation    the region in the simulator, on one core (goal 0.4 s)
    python benchmarks/vta.py generation    the region's program and a whole build, cold (goal 10 s)
    python benchmarks/vta.py trials        tuners beside random (goal 0.5); counts the cuts: minutes
    python benchmarks/vta.py quantisers    what the quantizers lose (goal 3 dB)

No board was there: cycles and their milliseconds are a model's. The network is ResNet-18 with seeded weights.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.document import print_measured  # noqa: E402


def _region(given: argparse.Namespace) -> dict[str, object]:
    from benchmarks.accelerator.model import region

    return region(given.model)


def _simulation(given: argparse.Namespace) -> dict[str, object]:
    from benchmarks.accelerator.simulation import simulations

    return simulations(given.model, given.rounds, given.again)


def _generation(given: argparse.Namespace) -> dict[str, object]:
    from benchmarks.accelerator.generation import generations

    return generations(given.model, given.again)


def _trials(given: argparse.Namespace) -> dict[str, object]:
    from benchmarks.accelerator.trials import SHAPES, searches

    return searches(given.conv or SHAPES, given.seeds)


def _quantisers(given: argparse.Namespace) -> dict[str, object]:
    from benchmarks.accelerator.quantisers import losses

    return losses(given.model)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    network = argparse.ArgumentParser(add_help=False)
    network.add_argument("--model", default="zoo:resnet-18", help="default zoo:resnet-18")
    region = commands.add_parser("region", parents=[network], help="the region's cycles, by the model")
    region.set_defaults(measure=_region)
    simulated = commands.add_parser("simulation", parents=[network], help="the region in the simulator")
    simulated.add_argument("--rounds", type=int, default=5, help="strict and not in turn (default 5)")
    simulated.add_argument("--again", type=int, default=3, help="runs of a process (default 3)")
    simulated.set_defaults(measure=_simulation)
    generated = commands.add_parser("generation", parents=[network], help="programs, in cold processes")
    generated.add_argument("--again", type=int, default=3, help="how often; the median counts (default 3)")
    generated.set_defaults(measure=_generation)
    searched = commands.add_parser("trials", help="trials of tuners until near the best")
    searched.add_argument(
        "--conv", action="append", metavar="SHAPE", help="default: ResNet-18's three 1x1 convolutions"
    )
    searched.add_argument("--seeds", type=int, default=10, help="default 10")
    searched.set_defaults(measure=_trials)
    lost = commands.add_parser("quantisers", parents=[network], help="what the quantizers lose")
    lost.set_defaults(measure=_quantisers)
    return parser


if __name__ == "__main__":
    print_measured(_parser())
