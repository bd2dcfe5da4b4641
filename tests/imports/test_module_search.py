"""Python files in the folder that a command is typed in are not executed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.models.graphs import classifier
from toolchain.doctor.probes import check_in_a_process
from toolchain.imports import module_search
from toolchain.processes.worker import Worker

TRAPS = ("json", "numpy", "sitecustomize", "tvm", "onnx", "xgboost", "cloudpickle", "logging", "pydantic")


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """Return a folder in which every module notes that it was executed."""
    folder = tmp_path / "trapped"
    folder.mkdir()
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'executed')!r}, 'a').write(__name__)\n")
    return folder


def executed(folder: Path) -> str:
    note = folder / "executed"
    return note.read_text() if note.exists() else ""


def toolchain(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program that users run."""
    program = Path(sys.executable).parent / "toolchain"
    return subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_a_worker_executes_none(trapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trapped)
    monkeypatch.setattr(sys, "path", ["", ".", "sub/..", *sys.path])
    worker = Worker()
    try:
        here = worker.call(60, os.getcwd)
        child: object = worker.call(60, subprocess.check_output, [sys.executable, "-c", "import json, numpy"])
    finally:
        worker.close()
    assert here == str(trapped) and child == b""
    assert executed(trapped) == ""


def test_what_doctor_tries_executes_none(trapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trapped)
    assert check_in_a_process("numpy", "import json, numpy; print('here')", "").found == "here"
    assert executed(trapped) == ""


@pytest.mark.slow
def test_a_build_executes_none(trapped: Path) -> None:
    onnx.save(classifier(), trapped / "small.onnx")
    done = toolchain(trapped, "build", "small.onnx", "--board", "local", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert executed(trapped) == ""


def test_entries_that_depend_on_the_folder_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ":/named:sub")
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", "/named", "sub", *sys.path])
    module_search.leave_out_current_folder()
    assert os.environ["PYTHONPATH"] == "/named" and os.environ["PYTHONSAFEPATH"] == "1"
    assert sys.path[0] == "/named" and str(tmp_path) not in sys.path
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    module_search.leave_out_current_folder()
    assert sys.path[0] == str(tmp_path)  # in full: that is no accident
