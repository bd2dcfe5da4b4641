"""What grows with records, boards and functions, a row for each size: tables of docs/benchmarks-growth.md.

    python -m benchmarks.growth records [--sizes N,…] [--url postgresql://…]
    python -m benchmarks.growth boards [--sizes N,…]
    python -m benchmarks.growth functions [--sizes N,…] [--build-up-to N]

All times are CPU seconds, of a command with its child processes: they depend little on what else runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping

from benchmarks.growth import boards, functions, records

Rows = Iterable[Mapping[str, str]]


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(required=True)
    tables: dict[str, tuple[Callable[[argparse.Namespace], Rows], list[int]]] = {
        "records": (records.rows, [10**3, 10**4, 10**5, 10**6]),
        "boards": (boards.rows, [1, 4, 16, 64]),
        "functions": (functions.rows, [10, 30, 100, 300, 1000]),
    }
    for name, (make, sizes) in tables.items():
        own = what.add_parser(name)
        own.add_argument("--sizes", type=_numbers, default=sizes)
        own.add_argument("--url", help="of an empty PostgreSQL database, for records; else a file")
        own.add_argument("--build-up-to", type=int, default=300, help="functions")
        own.set_defaults(make=make)
    given = parser.parse_args()
    head = False
    for row in given.make(given):
        if not head:
            print("|", " | ".join(row), "|", flush=True)
            print("|", " | ".join("---:" for _ in row), "|", flush=True)
            head = True
        print("|", " | ".join(row.values()), "|", flush=True)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
