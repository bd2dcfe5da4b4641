"""What benchmark scripts share: options for what becomes of the numbers, and what is done with them."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.latency import document as text
from benchmarks.words import note
from toolchain.files.atomic import write_text

Document = dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `report` reads."""
    parser.add_argument("--json", action="store_true", help="print the numbers instead of tables")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the numbers")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: take kept numbers")
    parser.add_argument("--write", type=Path, metavar="FILE", help="fill the tables of a Markdown file")


def report(
    given: argparse.Namespace,
    script: str,
    measured: Callable[[argparse.Namespace, Path], Document],
    markdown: Callable[[Document], str],
    part: str = "tables",
) -> None:
    """Measure in a temporary folder, then print, keep and write what was asked for.

    Parameters
    ----------
    script
        The script's path, which the markers of a Markdown file name.
    part
        Name of the part of that file which is filled.
    """
    if given.read:
        result: Document = json.loads(given.read.read_text())
    else:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"bench-{Path(script).stem}-") as folder:
            result = measured(given, Path(folder))
        note(f"took {time.monotonic() - begun:.0f} s")
    if given.save:
        write_text(given.save, json.dumps(result, indent=1))
    print(json.dumps(result, indent=2) if given.json else markdown(result))
    if given.write:
        text.write(given.write, {part: markdown(result)}, script)
