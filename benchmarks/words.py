"""Words that the benchmarks take on the command line, and say."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any


def note(words: str) -> None:
    """Say on stderr how far it is."""
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def listed(allowed: tuple[str, ...]) -> Any:
    """Return a parser of comma-separated words."""

    def parse(given: str) -> list[str]:
        words = given.split(",")
        if unknown := set(words) - set(allowed):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(allowed)}")
        return words

    return parse


def counts(given: str) -> list[int]:
    """Parse comma-separated whole numbers."""
    numbers = [int(word) for word in given.split(",")]
    if min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{given}: 1 is the least")
    return numbers
