"""What `make deps` leaves alone, and which packages belong to what."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

from toolchain.images.engine import answers

TOOLS = Path(__file__).parents[1] / "tools"


def _daemons() -> set[str]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            if (process / "comm").read_text().strip() == "dockerd":
                found.add(process.name)
    return found


def test_a_machine_that_is_ready_is_not_touched() -> None:
    before = _daemons()
    done = subprocess.run(
        [TOOLS / "docker.sh", "none"], capture_output=True, text=True, timeout=60, cwd=TOOLS, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "run `make deps` first"
    assert answers() and _daemons() == before


def _sets() -> dict[str, set[str]]:
    done = subprocess.run(
        [TOOLS / "deps.sh", "--list"], capture_output=True, text=True, timeout=60, check=True
    )
    rows = (line.split(": ") for line in done.stdout.splitlines())
    return {name: set(packages.split()) for name, packages in rows}


def test_the_demo_installs_no_compiler_and_no_opencl() -> None:
    sets = _sets()
    assert sets["venv"] == {"python3-venv"}
    assert sets["boards"] == {"python3-venv", "openssh-client", "qemu-user-static", "libc6-arm64-cross"}
    assert {"pocl-opencl-icd", "oclgrind"} <= sets["opencl"] and not sets["opencl"] & sets["boards"]
    assert {"llvm-newest", "qemu-user", "libc6-armhf-cross"} <= sets["counts"]
    assert sets["all"] == set().union(*sets.values())


def _asked_for(tmp_path: Path, *wanted: str) -> str:
    """Return what deps.sh would install on a Debian that has nothing, and may not."""
    for name, text in {
        "dpkg-query": "",
        "apt-get": "exit 1",
        "apt-cache": "[ $1 = show ]",
        "id": "echo 1000",
        "docker": "exit 1",
        "sudo": "exit 1",
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [TOOLS / "deps.sh", *wanted],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    return done.stderr


def test_a_set_or_a_package_is_asked_for_and_nothing_else(tmp_path: Path) -> None:
    assert "install-recommends python3-venv\n" in _asked_for(tmp_path, "venv").replace("--no-", "")
    said = _asked_for(tmp_path)
    assert "qemu-user-static" in said and "armhf" not in said and "pocl" not in said
    assert " g++\n" in _asked_for(tmp_path, "g++")
