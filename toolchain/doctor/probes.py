"""Checks one program or library at a time, in another process, since it may crash or hang."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from toolchain.architectures.table import linux_rows

State = Literal["ok", "missing", "optional", "note"]

PROBE_SECONDS = 120.0  # a first import of tvm from a cold disk takes tens of seconds


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes
    ----------
    state
        `missing`: needed and not usable here. `optional`: not installed, and some features need it.
        `note`: worth knowing.
    hint
        How to install or fix it.
    wanted_by
        The commands that need it; empty: all, or none.
    """

    name: str
    state: State
    found: str
    hint: str = ""
    wanted_by: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        return asdict(self)


def check_in_a_process(
    name: str, program: str, hint: str, expected: Callable[[str], bool] = bool, *arguments: str
) -> Check:
    """Run `program` in a separate Python, because incompatible libraries may crash it."""
    (check,) = check_steps(program, [ProbeStep(name, hint, expected)], *arguments)
    return check


@dataclass(frozen=True)
class ProbeStep:
    """A step of a probe program, which prints a line after each.

    Attributes
    ----------
    expected
        Whether a line reports success.
    """

    name: str
    hint: str
    expected: Callable[[str], bool] = bool


def check_steps(program: str, steps: list[ProbeStep], *arguments: str) -> Iterator[Check]:
    """Run `program` in a separate Python; yield a check for each step, by the line that it prints."""
    lines, problem = _run_python(program, arguments)
    if not problem:
        lines = lines[-len(steps) :]  # a plugin may print as well
    for number, step in enumerate(steps):
        succeeded = number < len(lines) and (not problem or number + 1 < len(steps))
        if succeeded and step.expected(lines[number]):
            yield Check(step.name, "ok", lines[number])
        else:
            complaint = problem or (lines[number] if number < len(lines) else "no output")
            yield Check(step.name, "missing", complaint, step.hint)
            for other in steps[number + 1 :]:
                yield Check(other.name, "missing", f"not tried, since this failed: {step.name}", other.hint)
            return


def _run_python(program: str, arguments: tuple[str, ...]) -> tuple[list[str], str]:
    """Return the lines that a program printed, and its error; empty if it succeeded."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return [], f"did not answer within {PROBE_SECONDS:g} s"
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0:
        return lines, ""
    if done.returncode < 0:
        return lines, f"crashed with signal {-done.returncode}"
    output_lines = done.stderr.strip().splitlines() or lines or ["no output"]
    return lines, output_lines[-1][:200]


def _version_of(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    if done.returncode != 0:
        raise OSError(f"{argv[0]} ended with {done.returncode}")
    return (done.stdout.strip() or done.stderr.strip()).split("\n")[0].strip()  # ssh says it on stderr


def check_tool(name: str, argv: list[str], missing: State, hint: str, wanted_by: str = "") -> Check:
    program = shutil.which(
        argv[0], path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    if program is None:
        return Check(name, missing, f"{argv[0]} is not installed", hint, wanted_by)
    try:
        return Check(name, "ok", f"{_version_of([program, *argv[1:]])} ({program})", "", wanted_by)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, missing, str(error), hint, wanted_by)


def own_architectures() -> tuple[str, ...]:
    """Return this host's own architectures, whose programs need no emulator."""
    return tuple(row.name for row in linux_rows() if row.uname == platform.machine())
