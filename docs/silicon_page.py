"""Writes docs/silicon.md from the documents of `toolchain board accept` in docs/silicon.

`python docs/silicon_page.py` writes, `tests/test_silicon.py` compares; it reads the README's column, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolchain.acceptance.document import Acceptance, read_acceptance
from toolchain.acceptance.found import BenchFound, FactsFound, PredictFound, VerifyFound
from toolchain.errors import UsageError

HERE = Path(__file__).parent
FOLDER = HERE / "silicon"
PAGE = HERE / "silicon.md"

_HEADER = """\
<!-- Made by docs/silicon_page.py from docs/silicon/*.json: add a file, then `make docs`. -->
# On silicon

What this toolchain was seen to do on real boards, from files that `toolchain board accept` wrote and
somebody sent ([how](howto/first-silicon.md)). Each board went through what its class promises. Emulated
boards and simulated devices have no place on this page, and no number here was typed by hand.

*Missed*: a number is beyond what was promised. *Skipped*: the board has no such device, or the time that
was given was over. The reason of each step is in its file. A network without a median was verified, and not
timed; predicted and measured times are of another run than the medians.
"""
_NONE = """
**None yet.** Nobody has sent such a file.
"""


def documents(folder: Path = FOLDER) -> list[tuple[str, Acceptance]]:
    """Return the documents by file name.

    Raises
    ------
    UsageError
        A file is no document, or it is of an emulated board.
    """
    found = [(path.name, read_acceptance(path)) for path in sorted(folder.glob("*.json"))]
    for name, document in found:
        if document.emulated:
            raise UsageError(f"{folder / name}: the board is emulated", "only real boards belong here")
    return found


def devices_on_silicon(document: Acceptance) -> set[str]:
    """Return the kinds of real devices on which networks were verified, none with wrong numbers."""
    right: set[str] = set()
    wrong: set[str] = set()
    for step in document.steps:
        if isinstance(step.found, VerifyFound) and step.found.real:
            (right if step.result == "passed" else wrong).add(step.found.device)
    return right - wrong


def page(found: Sequence[tuple[str, Acceptance]]) -> str:
    """Return the page."""
    if not found:
        return _HEADER + _NONE
    lines = [
        _HEADER,
        "| class | CPU | kernel | date | toolchain | passed | failed | missed | skipped | file |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, document in found:
        facts = next((step.found for step in document.steps if isinstance(step.found, FactsFound)), None)
        cpu = (facts.cpu or _cores(facts)) if facts else "?"
        kernel = (facts.kernel if facts else None) or "?"
        results = " | ".join(str(document.count(each)) for each in ("passed", "failed", "missed", "skipped"))
        lines.append(
            f"| `{document.board_class}` | {cpu} | {kernel} | {document.date} | {document.toolchain} "
            f"| {results} | [{name}](silicon/{name}) |"
        )
    lines += [
        "",
        "## Networks",
        "",
        "| class | date | device | network | | error | median |",
        "|---|---|---|---|---|---|---|",
    ]
    for _, document in found:
        lines += _networks(document)
    lines += [
        "",
        "## Predicted and measured",
        "",
        "| class | date | device | network | model | predicted | measured | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for _, document in found:
        lines += _predictions(document)
    return "\n".join(lines) + "\n"


def _cores(facts: FactsFound) -> str:
    return ", ".join(f"{count} × {core}" for core, count in facts.cores.items())  # noqa: RUF001 (as people write it)


def _networks(document: Acceptance) -> list[str]:
    benches = [step.found for step in document.steps if isinstance(step.found, BenchFound)]
    times = {(each.network, each.device): f"{each.p50_ms:.4g} ms" for each in benches}
    rows = []
    for step in document.steps:
        found = step.found
        if isinstance(found, VerifyFound) and found.real:
            error = "–" if found.error is None else f"{found.error:.1e}"  # noqa: RUF001 (a dash where a number would be)
            time = times.get((found.network, found.device), "")
            start = f"| `{document.board_class}` | {document.date} | {found.device} | {found.network} "
            rows.append(f"{start}| {step.result} | {error} | {time} |")
    return rows


def _predictions(document: Acceptance) -> list[str]:
    rows = []
    for step in document.steps:
        found = step.found
        if not isinstance(found, PredictFound) or not found.real:
            continue
        for each in found.predictions:
            if each.measured_ms is None or each.ratio is None:
                continue
            start = f"| `{document.board_class}` | {document.date} | {found.device} | {found.network} "
            times = f"{each.predicted_ms:.4g} ms | {each.measured_ms:.4g} ms | {each.ratio:.2f}"
            rows.append(f"{start}| {each.model} | {times} |")
    return rows


def said_in_readme(board_class: str, kind: str, found: Sequence[tuple[str, Acceptance]]) -> str:
    """Return what the README's column says of a class's device: the newest date with a link, or `never`."""
    dates = [
        document.date
        for _, document in found
        if document.board_class == board_class and kind in devices_on_silicon(document)
    ]
    return f"[{max(dates)}](docs/silicon.md)" if dates else "never"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(documents()))


if __name__ == "__main__":
    main()
