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
        # It stays, and `recover` does once the disk takes it what could not be done: the link `previous`.
        "commit": End("installed", code, "new"),
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


AGAIN: dict[str, End] = {
    "a rollback is killed once it is decided, and comes again": End("rolled-back", "", "old"),
    "a rollback's answer is lost, and it comes again": End("rolled-back", "", "old"),
    "the disk fails once in a rollback, before `current` is another": End("refused", "disk", "new"),
    "the disk fails once in a rollback, after `current` is another": End("rolled-back", "disk", "old"),
    "the disk takes no change from the decision of a rollback on": End("broken", "read-only", "old"),
    "`previous` names what is current": End("refused", "previous", "new"),
    "`previous` cannot be written after the commit": End("installed", "disk", "new"),
    "what is old cannot be removed after the commit": End("installed", "disk", "new"),
    "edge-rt is killed after the commit, before it removes what is old; `recover`": End("", "", "new"),
    "a changed library is mended, that is killed, and the release comes again": End("installed", "", "new"),
    "a byte of the current library has changed, and the release comes again": End("installed", "", "new"),
    "another statement of the bundle in use": End("installed", "", "another"),
    "an older version than another statement of the bundle in use": End("refused", "version", "another"),
    "after a way back, another release of the version that was left": End("refused", "version", "old"),
    "after a way back with a state that cannot be read, an older version": End("refused", "version", "old"),
    "`newest` cannot be read": End("refused", "newest", "old"),
    "neither `newest` nor the state can be read": End("refused", "newest", "old"),
    "others may write to the app's folder": End("refused", "folder", "old"),
    "`incoming` is a link": End("refused", "folder", "old"),
    "`releases` is a link": End("refused", "folder", "old"),
    "a program fills the disk in receive, after a refusal": End("interrupted", "space", "old"),
}
"""What a command meets that another one left, or that comes after a fault."""


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
        "",
        "tests/field/test_repeats.py does these. It also tries the rule behind all of them at each call that",
        "changes the disk: cut there, or faulted there (EIO, ENOSPC, EROFS), and given again,",
        "each command ends where one undisturbed run ends, and what it answered is what is on the disk.",
        "",
        "| what a command meets | end |",
        "|---|---|",
        *(f"| {what} | {end} |" for what, end in AGAIN.items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_bytes(PAGE, page().encode())
