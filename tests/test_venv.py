"""tools/venv.sh: which set it installs, on top of which, and what it does after a run that was cut off."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# In place of Python: makes an environment whose Python notes what it is asked for.
PYTHON = """#!/bin/sh
case "$*" in
    "-m venv --clear .venv")
        echo "new environment" >>log
        rm -rf .venv && mkdir -p .venv/bin && cp pip.sh .venv/bin/python ;;
    *) exec {python} "$@" ;;
esac
"""
PIP = """#!/bin/sh
for last; do :; done
case "$*" in
    *--editable*) echo project >>log ;;
    *) echo "$(grep -c '^[a-z].*==' "$last") packages" >>log ;;
esac
[ ! -e broken ]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("tools/venv.sh", "tools/distribution", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "docker" / "cuda", tmp_path / "docker" / "cuda")
    for name, text in {"python.sh": PYTHON.format(python=sys.executable), "pip.sh": PIP}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def install(checkout: Path, *arguments: str, code: int = 0) -> list[str]:
    """Return what venv.sh did: environments it made, and how many packages it asked pip for."""
    (checkout / "log").write_text("")
    done = subprocess.run(
        ["tools/venv.sh", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHON": str(checkout / "python.sh")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return (checkout / "log").read_text().splitlines()


@pytest.mark.slow
def test_a_larger_set_completes_a_smaller_one_and_a_finished_one_is_kept(checkout: Path) -> None:
    fresh, compilers = install(checkout, "compilers")
    assert fresh == "new environment"
    demo, project = install(checkout, "demo")
    assert project == "project" and install(checkout, "demo") == install(checkout, "compilers") == []
    everything, project = install(checkout)
    assert project == "project" and install(checkout) == install(checkout, "demo") == []
    assert int(compilers.split()[0]) < int(demo.split()[0]) < int(everything.split()[0])


@pytest.mark.slow
def test_a_run_that_was_cut_off_and_another_lock_begin_anew(checkout: Path) -> None:
    install(checkout, "compilers")
    (checkout / "broken").touch()
    install(checkout, "demo", code=1)
    (checkout / "broken").unlink()
    assert install(checkout, "demo")[0] == "new environment"
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert install(checkout, "all")[0] == "new environment"
    with (checkout / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    assert install(checkout, "all") == ["project"]
