"""A pytest plugin that writes the result of a run as a table: `--result-table FILE`."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--result-table", metavar="FILE", type=Path, help="write the result as a table")


def pytest_configure(config: pytest.Config) -> None:
    """Collect results where they come together: not in the workers of a parallel run."""
    file = config.getoption("--result-table")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ResultTable(file, config.rootpath))


class ResultTable:
    """One row per test module; every test of `full` (a network on a class) has a row of its own."""

    def __init__(self, file: Path, root: Path) -> None:
        self.file = file
        self.root = root
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: by its call, or by the phase that kept it from being called."""
        name = report.nodeid if "full" in report.keywords else report.nodeid.partition("::")[0]
        self.seconds[name] += report.duration
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[name][report.outcome] += 1

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the table."""
        commit = self._git("rev-parse", "--short=12", "HEAD")
        changed = (
            " with uncommitted changes"
            if self._git("status", "--porcelain", "-uno", "--", ".", f":!{self.file}")
            else ""
        )
        outcomes = sum(self.outcomes.values(), Counter())
        lines = [
            "# The last run of `make test-all`",
            "",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit}{changed}: "
            + ", ".join(f"{outcomes[o]} {o}" for o in ("passed", "failed", "skipped"))
            + f" ({'good' if exitstatus == 0 else 'not good'}).",
            "",
            "| tests | passed | failed | skipped | seconds |",
            "|---|---|---|---|---|",
        ]
        for name in sorted(self.seconds):
            found = self.outcomes[name]
            cells = [f"`{name}`", *(str(found[o]) for o in ("passed", "failed", "skipped"))]
            lines.append(f"| {' | '.join([*cells, f'{self.seconds[name]:.1f}'])} |")
        self.file.write_text("\n".join(lines) + "\n")

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=False)
        return done.stdout.strip()
