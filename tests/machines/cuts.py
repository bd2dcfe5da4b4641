"""Power cuts at seeded random moments of an update: whatever is cut, the old release or the new one works.

`python -m tests.machines.cuts [--cuts 200] [--seed N] [--log FILE]` cuts; with `--table FILE…` it prints the
table of docs/benchmarks-field.md from such files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.machines.disk import Loss
from tests.machines.field import Field, make_releases
from tests.machines.machine import Machine, machine
from tests.machines.programs import path_with_qemu

LATE = 1.1  # cuts fall into this many times the update's duration: some come after its end
_COMMAND = ("./edge-rt", "install", "new.stream", "--field", "field", "--state", "state")


@dataclass(frozen=True)
class Cut:
    """One cut and its end.

    Attributes
    ----------
    after_s
        Seconds from the update's begin to the cut.
    step
        The last step that the board had announced; `-` before the first, `end` after the last.
    found
        The step that `edge-rt recover` found at the start; empty if it had nothing to do.
    runs
        The version that runs afterwards.
    """

    number: int
    after_s: float
    step: str
    loss: Loss
    found: str
    runs: str
    booted_s: float


class Update:
    """An update at work on a machine; a thread reads what the board says."""

    def __init__(self, target: Machine) -> None:
        self.began = time.monotonic()
        self.seconds: float | None = None
        self.lines: list[dict[str, Any]] = []
        self._dialogue = target.board.transport.talk(_COMMAND)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def step(self) -> str:
        """The last step that the board announced."""
        steps = [line["step"] for line in self.lines if "step" in line]
        return "end" if self.lines and "end" in self.lines[-1] else (steps or ["-"])[-1]

    def wait(self, seconds: float) -> None:
        """Wait until the update ends, or for so many seconds."""
        self._thread.join(seconds)

    def _read(self) -> None:
        try:
            while line := self._dialogue.read_line(600):
                self.lines.append(json.loads(line))
        except Exception:
            return
        self.seconds = time.monotonic() - self.began


def cuts(numbers: Iterable[int], seed: int, target: Machine, field: Field) -> Iterator[Cut]:
    """Yield the cuts of these numbers of the update that the saved machine is ready for."""
    target.restore()
    update = Update(target)
    update.wait(600)
    assert update.seconds is not None and update.lines[-1]["end"] == "installed", update.lines
    assert field.check() == "2.0.0"
    complete = _lasting(field.files())
    duration = update.seconds
    target.cut(random.Random(seed), "none")
    for number in numbers:
        chance = random.Random(f"{seed}/{number}")
        after_s = chance.uniform(0, LATE * duration)
        target.restore()
        update = Update(target)
        update.wait(after_s)
        time.sleep(max(0.0, update.began + after_s - time.monotonic()))
        step = update.step
        loss = target.cut(chance)
        target.boot()
        try:
            found = field.recovered()
            runs = field.check()
            if step == "end":
                assert runs == "2.0.0", "the update had ended"
            assert field.install()["end"] in ("installed", "unchanged")
            assert field.check() == "2.0.0"
            left = sorted(set(_lasting(field.files()).items()) ^ set(complete.items()))
            assert not left, f"the update leaves other files: {left}"
        except AssertionError as error:
            error.add_note(f"--seed {seed}, cut {number}, after {after_s:.3f} s, in {step}: {loss}")
            raise
        booted_s = target.booted_s
        target.cut(chance, "none")
        yield Cut(number, round(after_s, 3), step, loss, found, runs, round(booted_s, 1))


def _lasting(files: Any) -> dict[str, str]:
    """Return the paths that an update ends with; the journal and the clock in the state differ each time."""
    changing = ("toy/journal", "toy/journal.1", "toy/state", "lock")
    return {path: content for path, content in files.items() if path not in changing}


def ready(folder: Path, target: Machine) -> Field:
    """Bring the first release onto a machine, and save it."""
    target.boot()
    field = Field(target, make_releases(folder, target.board.name))
    field.prepare(folder)
    assert field.check() == "1.0.0"
    target.save()
    return field


def read(log: Path) -> list[Cut]:
    """Return the cuts of a log."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [Cut(**{**line, "loss": Loss(**line["loss"])}) for line in lines]


def describe(done: Sequence[Cut]) -> str:
    """Return a table: in which steps the cuts fell, and how they ended."""
    steps = sorted(
        {cut.step for cut in done}, key=lambda step: min(c.after_s for c in done if c.step == step)
    )
    rows = [
        "| cut in | cuts | old runs | new runs | blocks unflushed, of which lost | `recover` found |",
        "|---|---|---|---|---|---|",
    ]
    for step in steps:
        these = [cut for cut in done if cut.step == step]
        runs = Counter(cut.runs for cut in these)
        found = Counter(cut.found or "nothing" for cut in these)
        unflushed, lost = sum(c.loss.unflushed for c in these), sum(c.loss.lost for c in these)
        names = ", ".join(f"{name} {count}" for name, count in sorted(found.items()))
        rows.append(
            f"| {step} | {len(these)} | {runs['1.0.0']} | {runs['2.0.0']} | {unflushed}, {lost} | {names} |"
        )
    with_loss = sum(cut.loss.lost > 0 for cut in done)
    rows.append(f"\n{len(done)} cuts, of which {with_loss} lost writes that the disk had taken.")
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Cut the power as often as asked; write each cut as a line of JSON and the table as a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first: go on with a seed")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--log", type=Path, default=Path("build/power-cuts.jsonl"))
    parser.add_argument("--table", type=Path, nargs="+", help="print the table of these logs; cut nothing")
    given = parser.parse_args(arguments)
    if given.table:
        print(describe([cut for log in given.table for cut in read(log)]))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the machine ends as well
    os.environ["PATH"] = path_with_qemu()
    done: list[Cut] = []
    given.log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, given.log.open("w") as log:
        os.environ["TOOLCHAIN_STATE_DIR"] = f"{folder}/state"
        with machine("cut") as target:
            field = ready(Path(folder), target)
            for cut in cuts(range(given.first, given.first + given.cuts), given.seed, target, field):
                done.append(cut)
                log.write(json.dumps(asdict(cut)) + "\n")
                log.flush()
                print(f"{len(done)}/{given.cuts} {cut}", flush=True)
    print(describe(done))


if __name__ == "__main__":
    main()
