"""The root command, and the entry point `main`."""

from __future__ import annotations

import sys

import click

from toolchain import __version__
from toolchain.cli import failures, output
from toolchain.cli.lazy import LazyGroup
from toolchain.imports.module_search import leave_out_current_folder

# In the order of use: set up, inspect, tune, build, measure, clean up.
COMMANDS = {
    "demo": "Tune, build, upload, verify and time one network, and write a report.",
    "init": "Write a first toolchain.toml.",
    "doctor": "Check what is installed, what is missing and how to get it.",
    "model": "List, inspect and export networks.",
    "board": "Add and maintain boards; start and stop emulated ones.",
    "lab": "Start, show and stop the tracker and the servers on boards.",
    "tasks": "List the tunable tasks of a network, the heaviest first.",
    "tune": "Search for faster code by measuring candidates on a board.",
    "records": "List, export, import and thin out records of tuning.",
    "report": "Write the plots of a tuning run or of a rollout as an HTML page.",
    "build": "Compile a network into a bundle for a board.",
    "run": "Run a bundle once on a board, with your own data.",
    "verify": "Compare a bundle's outputs on a board with the reference.",
    "bench": "Measure a bundle's latency on a board.",
    "release": "Sign bundles for boards in the field, and say whose signatures boards accept.",
    "deploy": "Install a signed release on boards, phase by phase.",
    "rollback": "Take boards back to the release they ran before.",
    "fleet": "Show what the boards of a fleet run.",
    "ui": "Show boards, tuning, builds and rollouts on a page while they work.",
    "runtime": "edge-rt: its C library for your own program, and a check of its bytes.",
    "vta": "Inspect and test the accelerator VTA: configurations, programs, portability.",
    "image": "Manage the images with cross-compilers, in which build and tune can run.",
    "cache": "List and prune files that can be made again.",
    "completion": "Print the completion script of a shell.",
}

EPILOG = (
    "Exit codes: 0 done; 1 the work began and failed; 2 what was typed or handed over can't be used; "
    "3 this machine lacks something (see `toolchain doctor`); 4 a bundle fails its check, or a board answers "
    "what cannot be right."
)


@click.group(
    cls=LazyGroup,
    package="toolchain.cli.commands",
    table=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="toolchain", message="%(prog)s %(version)s")
@output.output_options
def root() -> None:
    """Compile a network to a tuned, verified, timed library on an edge board."""


def main() -> None:
    """Run the command line of this process and exit with its code."""
    leave_out_current_folder()
    sys.exit(failures.run(root, sys.argv[1:]))
