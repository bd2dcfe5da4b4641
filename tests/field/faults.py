"""What happens to an installation in each step, and how it must end: the table of docs/field-faults.md.

`python -m tests.field.faults` writes the page; test_faults.py does what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolchain.files.atomic import write_bytes

PAGE = Path(__file__).parents[2] / "docs" / "field-faults.md"
STEPS = ("receive", "check", "unpack", "test", "activate", "health", "commit")


@dataclass(frozen=True)
class End:
    """How an installation ends: its last word, its cause's code, and the release that is current then.

    Attributes
    ----------
    said
        The last line's `end`; "" where nobody is left to say it.
    current
        "old" or "new", once the fault is over and `recover` ran.
    """

    said: str
    code: str
    current: str

    def __str__(self) -> str:
        """The cell of the table."""
        words = f"`{self.said}`" if self.said else "nothing said"
        return f"{words}{f' (`{self.code}`)' if self.code else ''}: {self.current}"


_CUT = End("", "", "old")
_ON = End("installed", "", "new")
_DONE = End("", "", "new")


def _disk(code: str) -> dict[str, End]:
    """Return the row of a disk that takes nothing more."""
    refused, back = End("refused", code, "old"), End("rolled-back", code, "old")
    return {
        "receive": End("interrupted", code, "old"),
        **dict.fromkeys(("check", "unpack", "test"), refused),
        "activate": back,
        # It cannot go back now; `recover` does once the disk takes it.
        "health": End("broken", code, "old"),
        "commit": _ON,
    }


IN_STEP: dict[str, dict[str, End]] = {
    "edge-rt is killed, and `recover` runs (a power cut, a reboot)": {
        **dict.fromkeys(STEPS, _CUT),
        "commit": _DONE,
    },
    "edge-rt is killed, and the release comes again (the lock of a dead process)": dict.fromkeys(STEPS, _ON),
    "the link breaks": {**dict.fromkeys(STEPS, _ON), "receive": End("interrupted", "link", "old")},
    "the session ends (SIGHUP)": {**dict.fromkeys(STEPS, _ON), "receive": End("interrupted", "link", "old")},
    "somebody stops it (SIGTERM)": {
        **dict.fromkeys(("receive", "check", "unpack", "test"), End("interrupted", "stopped", "old")),
        **dict.fromkeys(("activate", "health", "commit"), _ON),
    },
    "the disk is full": _disk("space"),
    "the file system becomes read-only": _disk("read-only"),
}
"""By fault and step."""

AT_ONCE: dict[str, End] = {
    "bad signature": End("refused", "signature", "old"),
    "the clock is before the release's date": End("refused", "clock", "old"),
    "the clock is after its expiry": End("refused", "expired", "old"),
    "another class of board": End("refused", "class", "old"),
    "an older version": End("refused", "version", "old"),
    "another runtime": End("refused", "runtime", "old"),
    "a corrupt part": End("refused", "digest", "old"),
    "the self-test is wrong": End("refused", "wrong", "old"),
    "the self-test is slow": End("refused", "slow", "old"),
    "the self-test needs too much memory": End("refused", "memory", "old"),
    "the library crashes": End("refused", "crash", "old"),
    "the library ends the process": End("refused", "crash", "old"),
    "the library hangs": End("refused", "timeout", "old"),
    "the health command fails": End("rolled-back", "health", "old"),
    "the health command hangs": End("rolled-back", "health-timeout", "old"),
    "the health command fails, and the old release is damaged": End("broken", "health", "damaged"),
    "another installation is at work": End("refused", "busy", "old"),
}
"""Faults that are there from the beginning."""


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# What an installation survives",
        "",
        "Made by `python -m tests.field.faults`; tests/field/test_faults.py does each of these and looks at",
        "the disk.",
        "A cell has the last word that the board says, the code of its cause, and which release is current",
        "once the fault is over and `edge-rt recover` ran. It is whole each time, and the next installation",
        "succeeds.",
        "",
        f"| fault | {' | '.join(STEPS)} |",
        f"|{'---|' * (len(STEPS) + 1)}",
        *(f"| {fault} | {' | '.join(str(row[step]) for step in STEPS)} |" for fault, row in IN_STEP.items()),
        "",
        "| fault from the beginning on | end |",
        "|---|---|",
        *(f"| {fault} | {end} |" for fault, end in AT_ONCE.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_bytes(PAGE, page().encode())
