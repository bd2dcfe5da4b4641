"""A build is the same, byte for byte, whatever was compiled before and by how many processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import psutil
import pytest

from tests.waiting import until
from toolchain.boards.inventory.lookup import find_target
from toolchain.building.build import BuildResult, build
from toolchain.building.options import BuildOptions
from toolchain.configuration.settings import configuration
from toolchain.lowering.kernels import compilers
from toolchain.lowering.kernels.compile import compile_kernel
from toolchain.models.load import Model, load_model

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the symbols of functions that are compiled from now on; those in workers do not count."""
    found: list[str] = []
    original = compile_kernel

    def counted(recipe: bytes, target: str, symbol: str) -> bytes:
        found.append(symbol)
        return original(recipe, target, symbol)

    monkeypatch.setattr(compilers, "compile_kernel", counted)
    return found


@pytest.fixture
def built(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[BuildResult, list[str]]]:
    """Return what builds the network, and says what it said."""

    def run(jobs: int = 1, board: str = "x86_64", **options: object) -> tuple[BuildResult, list[str]]:
        monkeypatch.setenv("TOOLCHAIN_JOBS", str(jobs))
        configuration.cache_clear()
        said: list[str] = []
        how = BuildOptions(**options)
        result = build(model, find_target(board), None, tmp_path / "out", how, said.append)
        return result, said

    return run


def counts(steps: list[str]) -> list[str]:
    """Return how many functions were compiled, of how many, each time that progress was reported."""
    return [step.split()[1] for step in steps if step.startswith("compiling ")]


def objects(cache: Path) -> list[Path]:
    return sorted((cache / "objects").glob("*/*"))


def test_cold_and_warm_and_damaged(
    built: Callable[..., tuple[BuildResult, list[str]]], cache: Path, compiled: list[str]
) -> None:
    cold, steps = built()
    count = len(objects(cache))
    assert 5 < count == len(compiled)
    assert counts(steps) == [f"{n}/{count}" for n in range(count + 1)]

    warm, steps = built()
    assert len(compiled) == count
    assert counts(steps) == [f"{count}/{count}"]

    objects(cache)[0].write_bytes(b"damaged")
    mended, _said = built()
    assert len(compiled) == count + 1
    assert objects(cache)[0].read_bytes() != b"damaged"
    assert cold.bundle_sha256 == warm.bundle_sha256 == mended.bundle_sha256


@pytest.mark.slow
@pytest.mark.parametrize("board", ["x86_64", pytest.param("pynq", marks=pytest.mark.full)])
def test_one_process_and_several(
    built: Callable[..., tuple[BuildResult, list[str]]], cache: Path, board: str
) -> None:
    found = []
    for jobs in (1, 2, 3):
        found.append(built(jobs, board, format="tar")[0])
        for path in objects(cache):
            path.unlink()
    assert len({each.bundle_sha256 for each in found}) == 1


def test_a_cache_that_cannot_be_written_is_said_and_the_build_goes_on(
    built: Callable[..., tuple[BuildResult, list[str]]], cache: Path
) -> None:
    (cache / "objects").write_text("in the way")
    result, said = built()
    warnings = [each for each in said if each.startswith("warning")]
    assert len(warnings) == 1
    assert str(cache / "objects") in warnings[0]
    assert result.bundle.exists()


def test_a_changed_network_costs_what_changed(
    model: Model,
    built: Callable[..., tuple[BuildResult, list[str]]],
    compiled: list[str],
    tmp_path: Path,
) -> None:
    """One more layer in front, which changes TVM's names of all functions behind it."""
    built()
    before = len(compiled)
    changed = onnx.load(model.source)
    first = changed.graph.node[0]
    changed.graph.node.insert(0, onnx.helper.make_node("Abs", [first.input[0]], ["before"]))
    changed.graph.node[1].input[0] = "before"
    onnx.save(changed, tmp_path / "changed.onnx")
    again = load_model(str(tmp_path / "changed.onnx"), model.options)
    build(replace(again, name="changed"), find_target("x86_64"), None, tmp_path / "out")
    assert 0 < len(compiled) - before <= 2


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_no_file(model: Model, tmp_path: Path) -> None:
    arguments = ["build", model.source, "--board", "x86_64", "-o", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-m", "toolchain", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TOOLCHAIN_JOBS": "3"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("compiling"):
            break
    parent = psutil.Process(process.pid)
    until(lambda: len(parent.children(recursive=True)) == 2 or process.poll() is not None)
    children = parent.children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    psutil.wait_procs(children, 10)
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
