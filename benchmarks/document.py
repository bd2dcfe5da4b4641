"""What a benchmark prints."""

from __future__ import annotations

import argparse
import json
import os


def print_measured(parser: argparse.ArgumentParser) -> None:
    """Print one JSON document: what the command line asks for, and how busy the machine was."""
    given = parser.parse_args()
    before = os.getloadavg()[0]
    result = given.measure(given)
    print(json.dumps({**result, "load": [round(before, 2), round(os.getloadavg()[0], 2)]}, indent=2))
