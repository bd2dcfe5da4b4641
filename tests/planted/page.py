"""docs/planted-faults.md: which faults the comparison catches. `python -m tests.planted.page` writes it."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.planted.faults import KINDS, ZEROED
from tests.planted.networks import NETWORKS
from tests.planted.trial import Judge, Trial
from toolchain.files.atomic import replacing

PAGE = Path(__file__).parents[2] / "docs" / "planted-faults.md"
COLUMNS = ("planted", "moved", "caught", "as wholes", "besides")

_TEXT = """# Planted faults

A check that cannot fail proves nothing. Each network here was changed as a compiler, a library or its author
may get it wrong, one fault at a time, at up to four places from its first layer to its last. onnxruntime
computed what a library with that fault would; the outputs were compared with the right ones as `verify`,
`build --check` and a board's self-test compare them
([decision 84](decisions/0084-outputs-by-their-parts.md)).

- **moved**: a part of an output, as the network's author would name it (boxes, scores), is off by more than
  its tolerance, relative to the largest value of that part. Every one of these must be caught.
- **caught**: of these, how many fail. **as wholes**: how many failed in version 0.1.0, which compared an
  output as a whole: scores to 1 hid behind boxes to 640.
- **besides**: how many more fail, such as by the logarithms of a softmax's small probabilities.
- The others change the outputs by less than the tolerance. Where a quantised network amplifies rounding, its
  tolerance is wide, of which `build` warns, and more faults stay below it.

Networks have random weights and a seeded sample. `python -m tests.planted.page` writes this page in minutes.
A full test demands that no fault that moved a part is missed; each run of the tests takes a part of them,
compiles some with the fault inside, and lets the board's code compare.

"""


def trials(name: str) -> list[Trial]:
    """Return what came of each fault of a network."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        judge = Judge(NETWORKS[name], Path(folder))
        return [judge.trial(fault) for fault in judge.faults()]


def counts(of: list[Trial]) -> Counter[str]:
    """Return the columns' numbers."""
    found: Counter[str] = Counter(dict.fromkeys(COLUMNS, 0))
    for trial in of:
        found["planted"] += 1
        found["moved"] += trial.moved
        found["caught"] += trial.moved and trial.caught
        found["as wholes"] += trial.moved and trial.caught_as_wholes
        found["besides"] += trial.caught and not trial.moved
    return found


def page(results: dict[str, list[Trial]]) -> str:
    """Return the page's text."""
    every = [trial for of in results.values() for trial in of]
    kinds = {kind: [each for each in every if each.fault.kind == kind] for kind in (*KINDS, ZEROED)}
    networks = {f"{name} ({NETWORKS[name].kind})": of for name, of in results.items()}
    lines = [_TEXT, *_table("fault", {**kinds, "**all**": every}), "", *_table("network", networks)]
    return "\n".join(lines) + "\n"


def _table(head: str, rows: dict[str, list[Trial]]) -> list[str]:
    lines = [f"| {head} | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, of in rows.items():
        number = counts(of)
        lines.append(f"| {name} | {' | '.join(str(number[column]) for column in COLUMNS)} |")
    return lines


def main() -> None:
    """Write the page."""
    results = {}
    for name in NETWORKS:
        results[name] = trials(name)
        print(f"{name}: {dict(counts(results[name]))}", file=sys.stderr)
    with replacing(PAGE) as temporary:
        temporary.write_text(page(results))


if __name__ == "__main__":
    main()
