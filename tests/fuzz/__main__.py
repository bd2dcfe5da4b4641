"""`make fuzz`: every harness, or those named, for some seconds each, with a new seed each time."""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
from pathlib import Path

from tests.fuzz.loop import run
from toolchain.errors import MissingError

NAMES = sorted(path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py"))


def main() -> int:
    """Fuzz; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(NAMES)}; all by default")
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_S", "60")))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--case", type=int, help="this one alone")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    for name in options.names or NAMES:
        harness = importlib.import_module(f"tests.fuzz.test_{name}").harness
        try:
            if options.case is None:
                cases = run(name, harness, options.seed, seconds=options.seconds)
            else:
                cases = run(name, harness, options.seed, cases=1, first=options.case)
        except (AssertionError, MissingError) as error:  # the latter: a harness that is compiled
            print(error, file=sys.stderr)
            return 1
        print(f"{name}: {cases} cases of seed {options.seed}, nothing found", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
