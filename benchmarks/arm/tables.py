"""What was counted, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.arm.model import Judged
from benchmarks.arm.peers import PEERS

BEGIN = "<!-- begin: written by benchmarks/arm/instructions.py -->"
END = "<!-- end -->"
_SHARE = 0.01  # of the executed instructions; loops with less are not listed
Row = Mapping[str, Any]


def fill(text: str, content: str) -> str:
    """Return `text` with `content` between the markers.

    Raises
    ------
    ValueError
        It has no such markers.
    """
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"no lines {BEGIN!r} … {END!r}")
    return f"{before}{BEGIN}\n\n{content.strip()}\n\n{END}{after}"


def markdown(rows: Sequence[Row]) -> str:
    """Return the table of counts, and that of the modelled loops."""
    header = ["network", "core", "ours", "of it multiply-accumulate", *PEERS, "ours / better peer"]
    body = []
    for row in rows:
        peers = [row[peer]["instructions"] for peer in PEERS if peer in row]
        ours = row["ours"]
        body.append(
            [
                row["network"],
                row["core"],
                _millions(ours["instructions"]),
                _millions(ours["multiply_accumulates"]),
                *(_millions(row[peer]["instructions"]) if peer in row else "-" for peer in PEERS),
                f"{ours['instructions'] / min(peers):.2f}" if peers else "-",
            ]
        )
    loop_header = ["network", "core", "in hot loops", "of the bound", "spilling loops"]
    return f"{_table(header, body)}\n\n{_table(loop_header, [_summary(row) for row in rows])}\n"


def _summary(row: Row) -> list[str]:
    found = row["ours"]["loops"]
    executed = sum(loop["executed"] for loop in found)
    modelled = [loop for loop in found if loop["share"] is not None]
    # Weighted by the multiply-accumulates that were executed.
    done = [loop["executed"] / loop["instructions"] * loop["multiply_accumulates"] for loop in modelled]
    cycles = sum(count / loop["share"] for count, loop in zip(done, modelled, strict=True) if loop["share"])
    spilling = sum(loop["vector_spills"] > 0 for loop in found)
    return [
        row["network"],
        row["core"],
        f"{executed / row['ours']['instructions']:.0%}",
        f"{sum(done) / cycles:.1%}" if cycles else "-",
        f"{spilling} of {len(found)}",
    ]


def layers(rows: Sequence[Row]) -> str:
    """Return ours by function and by loop, most first."""
    parts = []
    for row in rows:
        ours = row["ours"]
        least = ours["instructions"] * _SHARE
        functions = [
            [name, _millions(count["instructions"]), _millions(count["multiply_accumulates"])]
            for name, count in ours["layers"].items()
            if count["instructions"] >= least
        ]
        found = sorted((Judged(**loop) for loop in ours["loops"]), key=lambda loop: -loop.executed)
        parts += [
            f"### {row['network']}, {row['core']}",
            _table(["function", "instructions", "of it multiply-accumulate"], functions),
            loops([loop for loop in found if loop.executed >= least]),
        ]
    return "\n\n".join(parts)


def loops(found: Sequence[Judged]) -> str:
    """Return a table of hot loops."""
    header = ["loop", "instructions", "multiply-accumulate", "of products", "vector spills", "scalar spills"]
    body = [
        [
            f"{loop.function} {loop.start:#x}",
            *map(str, (loop.instructions, loop.multiply_accumulates, loop.products)),
            *map(str, (loop.vector_spills, loop.scalar_spills, loop.calls)),
            _millions(loop.executed) if loop.executed else "-",
            f"{loop.share:.1%}" if loop.share is not None else "-",
        ]
        for loop in found
    ]
    return _table([*header, "calls", "executed", "of the bound"], body)


def _millions(number: int) -> str:
    return f"{number / 1e6:.1f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
